import type { Pool } from "../../database/database.ts";

/** The server's version, and the settings that are off without which an acknowledged event can be lost. */
export async function readServer(pool: Pool): Promise<{ version: string; unsafe: readonly string[] }> {
  const { rows } = await pool.query<{ version: string; unsafe: string[] }>(
    `select split_part(current_setting('server_version'), ' ', 1) as version,
       array(select name from pg_catalog.pg_settings
             where name in ('fsync', 'synchronous_commit') and setting = 'off' order by name) as unsafe`,
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("a select without from returns one row");
  return row;
}

/** Tells whether the role of reporting tools exists and has its rights. */
export async function isReaderReady(pool: Pool): Promise<boolean> {
  const { rowCount } = await pool.query(
    `select from pg_catalog.pg_roles
     where rolname = 'order_mirror_reader' and has_schema_privilege(oid, 'reporting', 'usage')
       and has_table_privilege(oid, 'reporting.orders', 'select')`,
  );
  return rowCount === 1;
}

/** The number of orders per source, without deleted ones. It counts every row: use it for people, not in a loop. */
export async function countMirroredOrders(pool: Pool): Promise<ReadonlyMap<string, number>> {
  const { rows } = await pool.query<{ source_id: string; orders: number }>(
    "select source_id, count(*)::float8 as orders from mirror.orders where gone_at is null group by source_id",
  );
  return new Map(rows.map(({ source_id, orders }) => [source_id, orders]));
}
