import { once } from "node:events";
import type { Writable } from "node:stream";
import type { Pool } from "../database/database.ts";
import {
  readOrderRows,
  readOrderTexts,
  EXPORT_COLUMNS,
  type CellType,
  type ExportCell,
} from "./orderExport.sql.ts";
import type { OrderFilter } from "./orderFilter.sql.ts";
import { stringify } from "csv-stringify/sync";

export const EXPORT_FORMATS = ["csv", "ndjson"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

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
 * `ndjson` has one order object per line, unchanged. Reads no faster than `out` accepts, with constant memory. Rejects with the error of the database or of `out`, or with the reason of the signal; `out` is then incomplete.
 */
export async function exportOrders(options: ExportOptions): Promise<number> {
  const { pool, format, filter, out, signal } = options;
  let count = 0;
  if (format === "csv") {
    let head = writeCsvHeader();
    for await (const rows of readOrderRows(pool, filter)) {
      await writeOut(out, head + writeCsvRows(rows), signal);
      head = "";
      count += rows.length;
    }
    if (head !== "") await writeOut(out, head, signal);
  } else {
    for await (const orders of readOrderTexts(pool, filter)) {
      await writeOut(out, orders.map(writeLine).join(""), signal);
      count += orders.length;
    }
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

/** A line break in JSON text is white space: inside a string it is written \n. */
function writeLine(order: string): string {
  return `${order.replaceAll(/[\r\n]+/g, " ")}\n`;
}

const COLUMNS = Object.entries(EXPORT_COLUMNS);

/**
 * A spreadsheet runs a cell that begins like this as a formula; some skip white space and invisible characters first, and
 * some accept the full-width, small and mathematical signs of other keyboards. A quote before it counts as part of it, so
 * that the written quote can be removed again.
 */
const FORMULA = /^'*(?:[\s\p{C}]*[=+\-@\u2212\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20]|[\t\r\n])/u;

/** The line of column names. @internal */
export function writeCsvHeader(): string {
  return writeLines([COLUMNS.map(([name]) => name)]);
}

/** Lines of orders; each row has the columns of EXPORT_COLUMNS as returned by Postgres. @internal */
export function writeCsvRows(rows: readonly (readonly ExportCell[])[]): string {
  return writeLines(rows.map((row) => COLUMNS.map(([, type], index) => writeCell(row[index], type))));
}

/** Lines of any table; texts are protected like those of orders, numbers are written as they are. */
export function writeCsvTable(rows: readonly (readonly (string | number | null)[])[]): string {
  return writeLines(
    rows.map((row) => row.map((cell) => writeCell(cell, typeof cell === "number" ? "number" : "text"))),
  );
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
