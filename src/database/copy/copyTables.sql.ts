import pg from "pg";
import { beginSnapshot, readInBatches } from "../snapshot.sql.ts";

/** A table, by its quoted name with its schema. */
export interface Table {
  readonly name: string;
  readonly columns: readonly string[];
  /** Quoted names of the columns that take values: all but generated ones. */
  readonly written: readonly string[];
}

/** The content of a table in figures, for a comparison with another server. */
export interface Extent {
  readonly rows: string;
  /** Over all rows as text, regardless of their order. */
  readonly hash: string;
}

/** Rows per batch: few enough for memory even when they are the largest, with bodies of 1 MB. */
const BATCH = 100;

export async function listTables(client: pg.ClientBase, schemas: readonly string[]): Promise<Table[]> {
  const { rows } = await client.query<Table>(
    `select c.oid::regclass::text as name,
       array_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod) order by a.attnum) as columns,
       coalesce(array_agg(quote_ident(a.attname) order by a.attnum) filter (where a.attgenerated = ''), '{}') as written
     from pg_class c
     join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relkind = 'r' and c.relnamespace = any ($1::regnamespace[]) and c.relname not like 'order\\_mirror\\_migration%'
     group by c.oid order by name`,
    [schemas],
  );
  return rows;
}

/** Every table, view and sequence of these schemas, by its quoted name. */
export async function listRelations(client: pg.ClientBase, schemas: readonly string[]): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class
     where relkind in ('r', 'v', 'm', 'S', 'p', 'f') and relnamespace = any ($1::regnamespace[]) order by name`,
    [schemas],
  );
  return rows.map(({ name }) => name);
}

/** The schemas that are not Postgres' own. */
export async function listSchemas(client: pg.ClientBase): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select nspname as name from pg_namespace
     where nspname <> 'information_schema' and nspname not like 'pg\\_%' order by name`,
  );
  return rows.map(({ name }) => name);
}

/** The databases other than this one that somebody created. */
export async function listOtherDatabases(client: pg.ClientBase): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select datname as name from pg_database
     where datname not in ('postgres', 'template0', 'template1', current_database()) order by name`,
  );
  return rows.map(({ name }) => name);
}

export async function beginReading(client: pg.ClientBase): Promise<void> {
  await beginSnapshot(client);
  // So that listed names include their schema.
  await client.query("set local search_path = ''");
}

/** Begins a transaction without triggers and foreign key checks: the rows have already passed them once. */
export async function beginFilling(client: pg.ClientBase): Promise<void> {
  await client.query("begin");
  await client.query("set local session_replication_role = replica");
  await client.query("set local search_path = ''");
}

/** Deletes the rows that migrations inserted. */
export async function emptyTables(client: pg.ClientBase, tables: readonly Table[]): Promise<void> {
  if (tables.length > 0) await client.query(`truncate ${tables.map(({ name }) => name).join(", ")}`);
}

/** All rows of a table as text, in batches. Within a transaction. */
export async function* readRows(client: pg.ClientBase, { name }: Table): AsyncGenerator<readonly string[]> {
  const text = `select t::text as row from ${name} t`;
  for await (const rows of readInBatches<{ row: string }>(client, { text }, BATCH)) {
    yield rows.map(({ row }) => row);
  }
}

export async function insertRows(
  client: pg.ClientBase,
  { name, written }: Table,
  rows: readonly string[],
): Promise<void> {
  const columns = written.join(", ");
  await client.query(
    `insert into ${name} (${columns}) overriding system value select ${columns} from unnest($1::${name}[])`,
    [rows],
  );
}

export async function readExtent(client: pg.ClientBase, { name }: Table): Promise<Extent> {
  const { rows } = await client.query<Extent>(
    `select count(*)::text as rows, coalesce(sum(hashtextextended(t::text, 0)), 0)::text as hash from ${name} t`,
  );
  return rows[0] ?? { rows: "0", hash: "0" };
}

/** The rows of all tables as the planner estimates them. */
export async function estimateRows(client: pg.ClientBase, tables: readonly Table[]): Promise<number> {
  const { rows } = await client.query<{ rows: number }>(
    "select coalesce(sum(greatest(reltuples, 0)), 0)::float8 as rows from pg_class where oid = any ($1::regclass[])",
    [tables.map(({ name }) => name)],
  );
  return rows[0]?.rows ?? 0;
}

/** Sets every sequence of these schemas to its value in the other database. */
export async function copySequences(
  from: pg.ClientBase,
  to: pg.ClientBase,
  schemas: readonly string[],
): Promise<void> {
  const { rows } = await from.query<{ name: string; value: string }>(
    `select format('%I.%I', schemaname, sequencename) as name, last_value::text as value from pg_sequences
     where schemaname = any ($1) and last_value is not null`,
    [schemas],
  );
  for (const { name, value } of rows) await to.query("select setval($1::regclass, $2)", [name, value]);
}

/** Creates the roles that the other server lacks, with their passwords, settings and memberships. */
export async function copyRoles(from: pg.ClientBase, to: pg.ClientBase): Promise<void> {
  const { rows: roles } = await from.query<{ name: string; attributes: string; secret: string | null }>(
    `select rolname as name, rolpassword as secret,
       concat_ws(' ', case when rolcanlogin then 'login' end, case when rolsuper then 'superuser' end,
         case when rolcreatedb then 'createdb' end, case when rolcreaterole then 'createrole' end,
         case when not rolinherit then 'noinherit' end, 'connection limit ' || rolconnlimit) as attributes
     from pg_authid where rolname not like 'pg\\_%' order by rolname`,
  );
  const { rows: present } = await to.query<{ name: string }>("select rolname as name from pg_roles");
  const missing = roles.filter(({ name }) => !present.some((one) => one.name === name));
  for (const { name, attributes, secret } of missing) {
    const password = secret === null ? "" : ` password ${pg.escapeLiteral(secret)}`;
    await to.query(`create role ${pg.escapeIdentifier(name)} ${attributes}${password}`);
  }
  const { rows: statements } = await from.query<{ sql: string }>(
    `select format('grant %I to %I', g.rolname, m.rolname) as sql
     from pg_auth_members a join pg_roles g on g.oid = a.roleid join pg_roles m on m.oid = a.member
     where m.rolname = any ($1)
     union all
     select format('alter role %I%s set %s = %L', r.rolname,
       case when s.setdatabase = 0 then '' else format(' in database %I', current_database()) end,
       split_part(setting, '=', 1), substr(setting, strpos(setting, '=') + 1))
     from pg_db_role_setting s join pg_roles r on r.oid = s.setrole, unnest(s.setconfig) setting
     where r.rolname = any ($1)`,
    [missing.map(({ name }) => name)],
  );
  for (const { sql } of statements) await to.query(sql);
}
