import type { Pool } from "../../database/database.ts";

/** The server's properties that the doctor checks. */
export interface ServerFacts {
  readonly version: string;
  readonly fsync: boolean;
  readonly fullPageWrites: boolean;
  readonly synchronousCommit: string;
}

export async function readServerFacts(pool: Pool): Promise<ServerFacts> {
  const { rows } = await pool.query<ServerFacts>(
    `select split_part(current_setting('server_version'), ' ', 1) as version,
       current_setting('fsync')::boolean as fsync,
       current_setting('full_page_writes')::boolean as "fullPageWrites",
       current_setting('synchronous_commit') as "synchronousCommit"`,
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("a select without from returns one row");
  return row;
}

/** Whether the role of reporting tools exists and has its rights. */
export async function readReaderRole(pool: Pool): Promise<"ready" | "missing" | "without_rights"> {
  const { rows } = await pool.query<{ usable: boolean }>(
    `select has_schema_privilege(oid, 'reporting', 'usage')
       and has_table_privilege(oid, 'reporting.orders', 'select') as usable
     from pg_catalog.pg_roles where rolname = 'order_mirror_reader'`,
  );
  const [role] = rows;
  if (role === undefined) return "missing";
  return role.usable ? "ready" : "without_rights";
}

/** The reference of a source's most recently changed order; undefined if there is none. */
export async function readNewestReference(pool: Pool, sourceId: string): Promise<string | undefined> {
  const { rows } = await pool.query<{ reference: string }>(
    "select reference from mirror.orders where source_id = $1 order by version desc, reference desc limit 1",
    [sourceId],
  );
  return rows[0]?.reference;
}

/** The number of orders per source, without deleted ones. It counts every row: use it for people, not in a loop. */
export async function countMirroredOrders(pool: Pool): Promise<ReadonlyMap<string, number>> {
  const { rows } = await pool.query<{ source_id: string; orders: number }>(
    "select source_id, count(*)::float8 as orders from mirror.orders where gone_at is null group by source_id",
  );
  return new Map(rows.map(({ source_id, orders }) => [source_id, orders]));
}
