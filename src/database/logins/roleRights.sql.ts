import type { Pool } from "../database.ts";
import type { Right } from "./roleRights.ts";

export interface LoginFacts {
  readonly login: string;
  /** It has all rights of the schema's owner. */
  readonly isOwner: boolean;
  /** The group roles of config/postgres-roles.sql whose rights it has. */
  readonly groups: readonly string[];
}

export async function readLogin(pool: Pool): Promise<LoginFacts> {
  const { rows } = await pool.query<LoginFacts>(
    `select current_user as login,
       pg_has_role(nspowner, 'usage') as "isOwner",
       array(select rolname::text from pg_catalog.pg_roles
             where rolname in ('order_mirror_web', 'order_mirror_worker', 'order_mirror_poller', 'order_mirror_retention')
               and pg_has_role(oid, 'usage')
             order by rolname) as groups
     from pg_catalog.pg_namespace where nspname = 'mirror'`,
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("the schema mirror is missing");
  return row;
}

/** The parts of `rights` that this login lacks, such as `insert on mirror.inbox`, without duplicates. */
export async function listLacking(pool: Pool, rights: readonly Right[]): Promise<readonly string[]> {
  const { rows } = await pool.query<{ lacking: string }>(
    `with wanted as (
       select * from jsonb_to_recordset($1::jsonb)
         as w (kind text, object text, "except" text[], privilege text, "column" text)
     ), relations as (
       select w.*, c.oid, format('%s.%s', n.nspname, c.relname) as name
       from wanted w
       join pg_catalog.pg_namespace n on n.nspname = split_part(w.object, '.', 1)
       join pg_catalog.pg_class c on c.relnamespace = n.oid
         and c.relkind in ('r', 'p', 'v', 'm', 'S') and (c.relkind = 'S') = (w.kind = 'sequence')
         and split_part(w.object, '.', 2) in ('*', c.relname)
       where w.kind <> 'schema'
     )
     select distinct format('%s on %s', privilege, name) as lacking
     from (
       select privilege, object as name from wanted
       -- In a case, as the planner may look at a condition for rows that another one leaves out.
       where case kind when 'schema' then not has_schema_privilege(object, privilege) else false end
       union all
       select case when "column" is null then privilege else format('%s (%s)', privilege, "column") end, name
       from relations
       where name <> all ("except")
         and not case
           when kind = 'sequence' then has_sequence_privilege(oid, privilege)
           when "column" is null then has_table_privilege(oid, privilege)
           else has_column_privilege(oid, "column", privilege)
         end
     ) l
     order by lacking`,
    [JSON.stringify(rights)],
  );
  return rows.map(({ lacking }) => lacking);
}
