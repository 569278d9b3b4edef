import { beginSnapshot, readInBatches } from "../database/transaction.ts";
import type { Pool } from "../database/database.ts";
import { ORDER_COLUMN_LIST } from "../domain/order/orderColumns.ts";
import { writeOrderFilter, type OrderFilter } from "./orderFilter.sql.ts";

/** `bigint`: an integer of 64 bits. */
export type CellType = "text" | "boolean" | "time" | "number" | "bigint";

/** The exported columns of reporting.orders, with their types. */
export const EXPORT_COLUMNS: Readonly<Record<string, CellType>> = {
  source_id: "text",
  reference: "text",
  ...Object.fromEntries(
    ORDER_COLUMN_LIST.map(({ column, type }) => [column, type === "timestamptz" ? "time" : type]),
  ),
  branch_name: "text",
  updated_at: "time",
  version: "bigint",
  content_hash: "text",
  revision: "number",
  first_seen_via: "text",
  first_seen_at: "time",
  changed_at: "time",
};

/** As returned by Postgres: times in UTC and integers of 64 bits as text. */
export type ExportCell = string | number | boolean | null;

/** More is not faster, and everything between the server and the client is held in memory. */
const FETCH_ROWS = 100;

/**
 * Orders as rows of EXPORT_COLUMNS, in batches, sorted by updatedAt.
 *
 * Reads one snapshot of the mirror with a server-side cursor, so memory is constant. Ending early releases the
 * connection. `pool` must allow a transaction to idle while the batches are used.
 */
export function readOrderRows(pool: Pool, filter: OrderFilter): AsyncGenerator<ExportCell[][]> {
  const columns = Object.keys(EXPORT_COLUMNS).join(", ");
  return readByCursor<ExportCell[]>(pool, { filter, table: "reporting.orders", columns });
}

/** Order objects as unchanged JSON texts of the provider, in batches; otherwise like readOrderRows. */
export async function* readOrderTexts(pool: Pool, filter: OrderFilter): AsyncGenerator<string[]> {
  const query = { filter, table: "mirror.orders", columns: "raw::text" };
  const batches = readByCursor<[string]>(pool, query);
  for await (const batch of batches) yield batch.map(([raw]) => raw);
}

async function* readByCursor<Row extends unknown[]>(
  pool: Pool,
  query: { filter: OrderFilter; table: string; columns: string },
): AsyncGenerator<Row[]> {
  const { filter, table, columns } = query;
  const values: unknown[] = [];
  const conditions = writeOrderFilter(filter, (value) => `$${values.push(value)}`);
  const client = await pool.connect();
  let finished = false;
  try {
    await beginSnapshot(client);
    // By default cursors are planned for their first tenth: an export of a few orders would then scan all of them.
    // Planned for all rows, an export of everything would sort on disk before the first row.
    await client.query("set local time zone 'UTC'; set local cursor_tuple_fraction = 0.5");
    const text = `select ${columns} from ${table} where ${conditions.join(" and ")} order by version, reference`;
    yield* readInBatches<Row>(client, { text, values, rowMode: "array" }, FETCH_ROWS);
    await client.query("commit");
    finished = true;
  } finally {
    // A connection with an open transaction is closed, not returned to the pool.
    client.release(!finished);
  }
}
