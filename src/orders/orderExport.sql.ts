import type { Pool } from "../database/database.ts";
import { ORDER_COLUMN_LIST } from "../domain/order/orderColumns.ts";
import { writeOrderFilter } from "./orderFilter.sql.ts";
import type { OrderFilter } from "./orderFilter.sql.ts";

type CellType = "text" | "boolean" | "time" | "number";

/** Columns of reporting.orders that are exported as cells, and what they hold. */
export const EXPORT_COLUMNS: Readonly<Record<string, CellType>> = {
  source_id: "text",
  reference: "text",
  ...Object.fromEntries(
    ORDER_COLUMN_LIST.map(({ column, type }) => [column, type === "timestamptz" ? "time" : type]),
  ),
  branch_name: "text",
  updated_at: "time",
  revision: "number",
  first_seen_via: "text",
  first_seen_at: "time",
  changed_at: "time",
};

/** As the columns come from Postgres; times as its text in UTC. */
export type ExportCell = string | number | boolean | null;

/** More is no faster, and what lies between the server and the client is held in memory. */
const FETCH_ROWS = 100;

/**
 * Orders as rows of EXPORT_COLUMNS, in batches, sorted by updatedAt.
 *
 * Reads one snapshot of the mirror by a cursor of the server's, so memory does not grow with the number of orders.
 * Ending early gives the connection back. `pool` must allow a transaction to idle while the batches are used.
 */
export function readOrderRows(pool: Pool, filter: OrderFilter): AsyncGenerator<ExportCell[][]> {
  return readByCursor<ExportCell[]>(pool, {
    filter,
    table: "reporting.orders",
    columns: Object.keys(EXPORT_COLUMNS).join(", "),
  });
}

/** Order objects as JSON texts exactly as the provider sent them, in batches; otherwise as readOrderRows. */
export async function* readOrderTexts(pool: Pool, filter: OrderFilter): AsyncGenerator<string[]> {
  const query = { filter, table: "mirror.orders", columns: "raw::text" };
  const batches = readByCursor<[string]>(pool, query);
  for await (const batch of batches) yield batch.map(([raw]) => raw);
}

/** How many orders a filter finds. Counts them one by one: for what is to be read whole anyway. */
export async function countExportedOrders(pool: Pool, filter: OrderFilter): Promise<number> {
  const values: unknown[] = [];
  const conditions = writeOrderFilter(filter, (value) => `$${values.push(value)}`);
  const text = `select count(*) as count from mirror.orders where ${conditions.join(" and ")}`;
  const { rows } = await pool.query<{ count: string }>(text, values);
  return Number(rows[0]?.count ?? 0);
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
  // While rows are used no query waits for the error of a connection that breaks: the next one reports it.
  const ignore = () => undefined;
  client.on("error", ignore);
  try {
    await client.query("begin isolation level repeatable read read only");
    // Planned for its first tenth, as cursors are, an export of a few orders would walk all of them; planned for all
    // its rows, one of everything would sort them on disk before the first is written.
    await client.query("set local time zone 'UTC'; set local cursor_tuple_fraction = 0.5");
    await client.query(
      `declare orders no scroll cursor for
       select ${columns} from ${table} where ${conditions.join(" and ")} order by version, reference`,
      values,
    );
    for (;;) {
      const fetch = { text: `fetch ${FETCH_ROWS} from orders`, rowMode: "array" as const };
      const { rows } = await client.query<Row>(fetch);
      if (rows.length > 0) yield rows;
      if (rows.length < FETCH_ROWS) break;
    }
    await client.query("commit");
    finished = true;
  } finally {
    client.off("error", ignore);
    // A connection with an open transaction is closed, not given to the next caller.
    client.release(!finished);
  }
}
