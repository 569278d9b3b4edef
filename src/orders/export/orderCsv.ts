import { stringify } from "csv-stringify/sync";
import { EXPORT_COLUMNS } from "./orderExport.sql.ts";
import type { ExportCell } from "./orderExport.sql.ts";

export const CSV_SEPARATORS = { comma: ",", semicolon: ";", tab: "\t" } as const;
export type CsvSeparator = keyof typeof CSV_SEPARATORS;

export interface CsvOptions {
  /** For opening directly in Excel: with a byte order mark, and ids protected from being read as numbers or dates. */
  readonly excel: boolean;
  /** Default comma. Excel expects a semicolon in locales with a decimal comma. */
  readonly separator?: CsvSeparator | undefined;
}

/** Without it Excel reads UTF-8 as the local code page. */
const BYTE_ORDER_MARK = "\u{feff}";

const COLUMNS = Object.entries(EXPORT_COLUMNS);

/**
 * A spreadsheet runs a cell that begins like this as a formula; some skip white space and invisible characters first, and
 * some accept the full-width, small and mathematical signs of other keyboards. A quote before it counts as part of it, so
 * that the written quote can be removed again.
 */
const FORMULA = /^'*(?:[\s\p{C}]*[=+\-@\u2212\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20]|[\t\r\n])/u;
/**
 * Texts that Excel would convert to a number or a date, dropping digits and zeros: 00123, 12345678901234567, 1E5, 3-4,
 * SEP-2.
 */
const LOOKS_NUMERIC =
  /^\d[\d.,:/ eE+-]*$|^(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[ ./-]?\d+$/i;

/** The line of column names. */
export function writeCsvHeader({ excel, separator }: CsvOptions): string {
  const names = COLUMNS.map(([name]) => name);
  return `${excel ? BYTE_ORDER_MARK : ""}${writeLines([names], separator)}`;
}

/** Lines of orders; each row has the columns of EXPORT_COLUMNS as returned by Postgres. */
export function writeCsvRows(
  rows: readonly (readonly ExportCell[])[],
  { excel, separator }: CsvOptions,
): string {
  const cells = rows.map((row) => COLUMNS.map(([, type], index) => writeCell(row[index], { type, excel })));
  return writeLines(cells, separator);
}

/** Lines of any table; texts are protected like those of orders, numbers are written as they are. */
export function writeCsvTable(rows: readonly (readonly (string | number | null)[])[]): string {
  return writeLines(
    rows.map((row) =>
      row.map((cell) =>
        writeCell(cell, { type: typeof cell === "number" ? "number" : "text", excel: false }),
      ),
    ),
  );
}

/** RFC 4180: CRLF between lines, quotes where needed. */
function writeLines(rows: string[][], separator: CsvSeparator = "comma"): string {
  return stringify(rows, {
    delimiter: CSV_SEPARATORS[separator],
    record_delimiter: "windows",
    quote_record_delimiter: true,
  });
}

function writeCell(value: ExportCell | undefined, { type, excel }: { type: string; excel: boolean }): string {
  if (value === null || value === undefined) return "";
  if (type === "time") return writeTime(String(value));
  const text = String(value);
  if (type === "bigint") return excel ? `="${text}"` : text;
  if (type !== "text") return text;
  // Spreadsheets themselves write this quote before a text that would otherwise be a formula.
  if (FORMULA.test(text)) return `'${text}`;
  return excel && LOOKS_NUMERIC.test(text) ? `="${text}"` : text;
}

/** Converts Postgres' text in UTC to ISO 8601. */
function writeTime(text: string): string {
  return text.replace(" ", "T").replace(/\+00$/, "Z");
}
