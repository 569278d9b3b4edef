import { createHmac } from "node:crypto";
import pg from "pg";
import { withClient } from "../database.ts";
import type { Group } from "./loginRights.ts";

/** Any number that nothing else in the database locks. */
const LOCK_KEY = 7_405_003;

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
  const granted = groups.includes("order_mirror_worker") ? [...groups, ...TO_END_LONG_READS] : groups;
  const login = pg.escapeIdentifier(name);
  await withClient(ownerUrl, async (client) => {
    await client.query("select pg_advisory_lock($1)", [LOCK_KEY]);
    const { rowCount } = await client.query("select from pg_catalog.pg_roles where rolname = $1", [name]);
    await client.query(
      `${rowCount === 0 ? "create" : "alter"} role ${login} login password ${pg.escapeLiteral(password)}`,
    );
    await client.query(`grant ${granted.map((group) => pg.escapeIdentifier(group)).join(", ")} to ${login}`);
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

/** The worker ends reports that run too long. */
const TO_END_LONG_READS = ["pg_signal_backend", "pg_read_all_stats"];
