/**
 * The logins of the processes. Their rights come from the four group roles of config/postgres-roles.sql, which
 * `migrate` runs; the logins themselves come from config/postgres-logins.sql, or, in the embedded server, from
 * `prepareLogin`.
 */
import { createHash, createHmac } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { withClient, type Pool } from "./database.ts";
import type { Step } from "./migrations.ts";

const ROLES_FILE = fileURLToPath(new URL("../../config/postgres-roles.sql", import.meta.url));
/** Any number that nothing else in the database locks. */
const LOCK_KEY = 7_405_003;

/** The group roles of config/postgres-roles.sql. */
export const ALL_GROUPS = [
  "order_mirror_web",
  "order_mirror_worker",
  "order_mirror_poller",
  "order_mirror_retention",
] as const;
export type Group = (typeof ALL_GROUPS)[number];

export interface LoginFacts {
  readonly login: string;
  /** The login has all rights of the schema's owner. */
  readonly isOwner: boolean;
  /** The group roles whose rights it has. */
  readonly groups: readonly string[];
}

/** A problem in one sentence, with what mends it. */
export interface Lack {
  readonly sentence: string;
  readonly fix: string;
}

/** Grants the group roles their rights. With `always`, also if they were granted before: they may have been revoked. */
export async function makeRolesStep({ always }: { always: boolean }): Promise<Step> {
  const sql = await readFile(ROLES_FILE, "utf8");
  const checksum = createHash("sha256").update(sql).digest("hex");
  return { name: "roles", checksum, always, run: (client) => client.query(sql) };
}

/** The groups that a process must be a member of, given its configuration. */
export function listNeededGroups(
  service: "up" | "web" | "worker" | "poller",
  does: { readonly writesThrough: boolean },
): readonly Group[] {
  const groups = new Set<Group>(
    service === "up"
      ? ["order_mirror_web", "order_mirror_worker", "order_mirror_poller"]
      : [`order_mirror_${service}`],
  );
  if (groups.has("order_mirror_web") && does.writesThrough) groups.add("order_mirror_worker");
  if (service === "up" || service === "worker") groups.add("order_mirror_retention");
  return [...groups];
}

/** The login of the pool. */
export async function readLogin(pool: Pool): Promise<LoginFacts> {
  const { rows } = await pool.query<LoginFacts>(
    `select current_user as login, pg_has_role(nspowner, 'usage') as "isOwner",
       array(select rolname::text from pg_catalog.pg_roles
             where rolname = any ($1) and pg_has_role(oid, 'usage') order by rolname) as groups
     from pg_catalog.pg_namespace where nspname = 'mirror'`,
    [ALL_GROUPS],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("the schema mirror is missing");
  return row;
}

/** The groups among `needs` whose rights the login lacks. */
export function describeMissingGroups(
  { login, isOwner, groups }: LoginFacts,
  needs: readonly Group[],
): Lack[] {
  if (isOwner) return [];
  return needs
    .filter((group) => !groups.includes(group))
    .map((group) => ({
      sentence: `The login ${login} is not a member of ${group}.`,
      fix: `psql, as the owner: grant ${group} to ${pg.escapeIdentifier(login)};`,
    }));
}

/**
 * Lists what the database itself lacks although its roles were given their rights, as after a restore: a dump holds
 * neither the rights on the database nor its settings. Empty where `migrate --roles` never ran: logins belong to the
 * whole server, so those of another database say nothing about this one.
 */
export async function listLostSettings(pool: Pool): Promise<readonly string[]> {
  const { rows } = await pool.query<{ lost: string[] }>(
    `select array_remove(array[
         case when exists (select from aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
                           where a.grantee = 0 and a.privilege_type = 'CONNECT')
           then 'every login of the server may connect' end,
         case when has_database_privilege(g.oid, d.oid, 'connect') then null
           else 'the processes may not connect' end,
         case when has_database_privilege(g.oid, d.oid, 'temporary') then null
           else 'web and worker may not create temporary tables, which the queue in Postgres needs' end,
         case when exists (select from pg_catalog.pg_db_role_setting s
                           where s.setdatabase = d.oid and s.setrole = 0 and 'jit=off' = any (s.setconfig))
           then null else 'jit is not off, so statements through a pooler are compiled before they run' end
       ], null) as lost
     from pg_catalog.pg_database d, pg_catalog.pg_roles g
     where d.datname = current_database() and g.rolname = 'order_mirror_web'
       and exists (select from public.order_mirror_migration_runs where name = 'roles')`,
  );
  return rows[0]?.lost ?? [];
}

/**
 * Creates a login with the rights of these groups and returns its connection string. `ownerUrl` belongs to a superuser
 * of our own server. The password is derived from the superuser's, so that all processes know it and no file has to
 * store it. Several processes may call this concurrently.
 */
export async function prepareLogin(
  ownerUrl: string,
  { name, groups }: { name: string; groups: readonly Group[] },
): Promise<string> {
  const url = new URL(ownerUrl);
  const password = createHmac("sha256", decodeURIComponent(url.password)).update(name).digest("base64url");
  const login = pg.escapeIdentifier(name);
  await withClient(ownerUrl, async (client) => {
    await client.query("select pg_advisory_lock($1)", [LOCK_KEY]);
    const { rowCount } = await client.query("select from pg_catalog.pg_roles where rolname = $1", [name]);
    await client.query(
      `${rowCount === 0 ? "create" : "alter"} role ${login} login password ${pg.escapeLiteral(password)}`,
    );
    await client.query(`grant ${groups.map((group) => pg.escapeIdentifier(group)).join(", ")} to ${login}`);
    await closeOtherDatabases(client);
  });
  url.username = name;
  url.password = password;
  return url.href;
}

/** Every login could fill the disk there: with temporary tables, for example. */
async function closeOtherDatabases(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ revoke: string }>(
    `select format('revoke connect on database %I from public', datname) as revoke from pg_catalog.pg_database
     where datname <> current_database() and datallowconn
       and (datacl is null or exists (select from aclexplode(datacl) as granted where granted.grantee = 0))`,
  );
  for (const { revoke } of rows) await client.query(revoke);
}
