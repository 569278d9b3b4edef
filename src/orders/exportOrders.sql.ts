import { once } from "node:events";
import type { Writable } from "node:stream";
import { stringify } from "csv-stringify/sync";
import type { Pool } from "../database/database.ts";
import { readInBatches } from "../database/transaction.ts";
import { writeOrderFilter, type OrderFilter } from "./orderFilter.sql.ts";

export const EXPORT_FORMATS = ["csv", "ndjson"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

type Cell = string | number | boolean | null;

/** Rows as Postgres returns them: times in UTC and integers of 64 bits are text. */
export interface ExportRows {
  readonly fields: readonly { readonly name: string; readonly dataTypeID: number }[];
  readonly rows: readonly (readonly Cell[])[];
}

interface Format {
  readonly table: string;
  readonly columns: string;
  readonly write: (rows: ExportRows, isFirst: boolean) => string;
}

const FORMATS: Readonly<Record<ExportFormat, Format>> = {
  csv: { table: "reporting.orders", columns: "*", write: writeCsv },
  ndjson: {
    table: "(select * from mirror.orders where gone_at is null) present",
    columns: "raw::text",
    // A line break in JSON text is white space: inside a string it is written \n.
    write: ({ rows }) => rows.map(([raw]) => `${String(raw).replaceAll(/[\r\n]+/g, " ")}\n`).join(""),
  },
};

export interface ExportOptions {
  /** Its transactions idle while `out` is slow, at most for the pool's timeout. */
  readonly pool: Pool;
  readonly format: ExportFormat;
  readonly filter: OrderFilter;
  /** Left open. */
  readonly out: Writable;
  readonly signal: AbortSignal;
}

/**
 * Writes the orders of a filter to `out`, sorted by updatedAt, and returns their number.
 *
 * `csv` has the columns of reporting.orders; cells that a spreadsheet would run as a formula are written as text.
 * `ndjson` has one order object per line, unchanged. Reads no faster than `out` accepts, with constant memory. Rejects
 * with the error of the database or of `out`, or with the reason of the signal; `out` is then incomplete.
 */
export async function exportOrders(options: ExportOptions): Promise<number> {
  const { pool, format, filter, out, signal } = options;
  let count = 0;
  for await (const batch of readExport(pool, { format, filter })) {
    await writeOut(out, FORMATS[format].write(batch, count === 0), signal);
    count += batch.rows.length;
  }
  return count;
}

/** Resolves once `out` has accepted `chunk` and has room for more. */
async function writeOut(out: Writable, chunk: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  // An error that occurred while nobody waited is not reported again, and its stream never drains.
  if (out.errored) throw out.errored;
  if (out.write(chunk)) return;
  await once(out, "drain", { signal });
}

/** More is not faster, and everything between the server and the client is held in memory. */
const FETCH_ROWS = 100;

/**
 * The orders of an export in batches, sorted by updatedAt, each with the columns of its format.
 *
 * Reads with a server-side cursor, so memory is constant, and all batches show the mirror as it was at the beginning.
 * Ending early releases the connection. `pool` must allow a transaction to idle while the batches are used. @internal
 */
export async function* readExport(
  pool: Pool,
  { format, filter }: { format: ExportFormat; filter: OrderFilter },
): AsyncGenerator<ExportRows> {
  const { table, columns } = FORMATS[format];
  const values: unknown[] = [];
  const conditions = writeOrderFilter(filter, (value) => `$${values.push(value)}`);
  const client = await pool.connect();
  let finished = false;
  try {
    await client.query("begin read only");
    // By default cursors are planned for their first tenth: an export of a few orders would then scan all of them.
    // Planned for all rows, an export of everything would sort on disk before the first row.
    await client.query("set local time zone 'UTC'; set local cursor_tuple_fraction = 0.5");
    const text = `select ${columns} from ${table} where ${conditions.join(" and ")} order by version, reference`;
    yield* readInBatches<Cell[]>(client, { text, values }, FETCH_ROWS);
    await client.query("commit");
    finished = true;
  } finally {
    // A connection with an open transaction is closed, not returned to the pool.
    client.release(!finished);
  }
}

/**
 * A spreadsheet runs a cell that begins like this as a formula; some skip white space and invisible characters first,
 * and some accept the full-width, small and mathematical signs of other keyboards. A quote before it counts as part of
 * it, so that the written quote can be removed again.
 */
const FORMULA = /^'*(?:[\s\p{C}]*[=+\-@\u2212\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20]|[\t\r\n])/u;

/** Names that Postgres gives these types in its answers. */
const [INT8, TIMESTAMPTZ] = [20, 1184];

/** Lines of orders in CSV (RFC 4180: CRLF between lines, quotes where needed), after the names of the columns. */
export function writeCsv({ fields, rows }: ExportRows, hasHead = true): string {
  const head = hasHead ? [fields.map(({ name }) => name)] : [];
  const lines = rows.map((row) => row.map((value, index) => writeCell(value, fields[index]?.dataTypeID)));
  return stringify([...head, ...lines], { record_delimiter: "windows", quote_record_delimiter: true });
}

function writeCell(value: Cell, type: number | undefined): string {
  if (value === null) return "";
  if (typeof value !== "string" || type === INT8) return String(value);
  // Postgres' text in UTC as ISO 8601.
  if (type === TIMESTAMPTZ) return value.replace(" ", "T").replace(/\+00$/, "Z");
  // Spreadsheets themselves write this quote before a text that would otherwise be a formula.
  return FORMULA.test(value) ? `'${value}` : value;
}
