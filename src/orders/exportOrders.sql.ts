import { once } from "node:events";
import type { Writable } from "node:stream";
import { stringify } from "csv-stringify/sync";
import type { Pool } from "../database/database.ts";
import { readInBatches } from "../database/transaction.ts";
import { writeOrderFilter, type OrderFilter } from "./orderFilter.sql.ts";

export const EXPORT_FORMATS = ["csv", "ndjson"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/** `bigint`: an integer of 64 bits. */
export type CellType = "text" | "boolean" | "time" | "number" | "bigint";

/** The columns of reporting.orders in their sequence, with their types. */
export const EXPORT_COLUMNS: Readonly<Record<string, CellType>> = {
  source_id: "text",
  reference: "text",
  external_order_id: "text",
  status: "text",
  is_open: "boolean",
  livemode: "boolean",
  fleet_name: "text",
  branch_id: "text",
  branch_reference: "text",
  branch_name: "text",
  schedule_mode: "text",
  resolved_pickup_time: "time",
  resolved_delivery_time: "time",
  resolved_basis: "text",
  pickup_time: "time",
  delivery_time: "time",
  real_pickup_time: "time",
  real_delivery_time: "time",
  updated_at: "time",
  version: "bigint",
  settled: "boolean",
  verified_through: "time",
  revision: "number",
  first_seen_via: "text",
  first_seen_at: "time",
  changed_at: "time",
  content_hash: "text",
};

/** A value as Postgres returns it: times in UTC and integers of 64 bits are text. */
export type ExportCell = string | number | boolean | null;

interface Format {
  readonly table: string;
  readonly columns: string;
  /** Before the first order. */
  readonly head: string;
  readonly write: (rows: readonly ExportCell[][]) => string;
}

const COLUMNS = Object.entries(EXPORT_COLUMNS);

const FORMATS: Readonly<Record<ExportFormat, Format>> = {
  csv: {
    table: "reporting.orders",
    columns: COLUMNS.map(([name]) => name).join(", "),
    head: writeLines([COLUMNS.map(([name]) => name)]),
    write: writeCsvRows,
  },
  ndjson: {
    table: "(select * from mirror.orders where gone_at is null) present",
    columns: "raw::text",
    head: "",
    // A line break in JSON text is white space: inside a string it is written \n.
    write: (rows) => rows.map(([raw]) => `${String(raw).replaceAll(/[\r\n]+/g, " ")}\n`).join(""),
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
  let { head } = FORMATS[format];
  let count = 0;
  for await (const rows of readExport(pool, { format, filter })) {
    await writeOut(out, head + FORMATS[format].write(rows), signal);
    head = "";
    count += rows.length;
  }
  if (head !== "") await writeOut(out, head, signal);
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
): AsyncGenerator<ExportCell[][]> {
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
    yield* readInBatches<ExportCell[]>(client, { text, values, rowMode: "array" }, FETCH_ROWS);
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

/** A whole file of orders: its head, and a line for each row of EXPORT_COLUMNS. */
export function writeCsv(rows: readonly (readonly ExportCell[])[]): string {
  return FORMATS.csv.head + writeCsvRows(rows);
}

/** Lines of orders; each row has the columns of EXPORT_COLUMNS as returned by Postgres. @internal */
export function writeCsvRows(rows: readonly (readonly ExportCell[])[]): string {
  return writeLines(rows.map((row) => COLUMNS.map(([, type], index) => writeCell(row[index], type))));
}

/** RFC 4180: CRLF between lines, quotes where needed. */
function writeLines(rows: string[][]): string {
  return stringify(rows, { record_delimiter: "windows", quote_record_delimiter: true });
}

function writeCell(value: ExportCell | undefined, type: CellType): string {
  if (value === null || value === undefined) return "";
  const text = String(value);
  if (type === "time") return writeTime(text);
  // Spreadsheets themselves write this quote before a text that would otherwise be a formula.
  return type === "text" && FORMULA.test(text) ? `'${text}` : text;
}

/** Converts Postgres' text in UTC to ISO 8601. */
function writeTime(text: string): string {
  return text.replace(" ", "T").replace(/\+00$/, "Z");
}
