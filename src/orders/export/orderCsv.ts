import { stringify } from "csv-stringify/sync";
import { EXPORT_COLUMNS } from "./orderExport.sql.ts";
import type { CellType, ExportCell } from "./orderExport.sql.ts";

const COLUMNS = Object.entries(EXPORT_COLUMNS);

/**
 * A spreadsheet runs a cell that begins like this as a formula; some skip white space and invisible characters first, and
 * some accept the full-width, small and mathematical signs of other keyboards. A quote before it counts as part of it, so
 * that the written quote can be removed again.
 */
const FORMULA = /^'*(?:[\s\p{C}]*[=+\-@\u2212\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20]|[\t\r\n])/u;

/** The line of column names. */
export function writeCsvHeader(): string {
  return writeLines([COLUMNS.map(([name]) => name)]);
}

/** Lines of orders; each row has the columns of EXPORT_COLUMNS as returned by Postgres. */
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
