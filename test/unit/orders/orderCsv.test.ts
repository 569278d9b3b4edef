import { describe, expect, it } from "vitest";
import { EXPORT_COLUMNS } from "../../../src/orders/export/orderExport.sql.ts";
import type { ExportCell } from "../../../src/orders/export/orderExport.sql.ts";
import { writeCsvHeader, writeCsvRows } from "../../../src/orders/export/orderCsv.ts";

const NAMES = Object.keys(EXPORT_COLUMNS);
const PLAIN = { excel: false };
const EXCEL = { excel: true };

/** The text of the named cell in the line of an order whose other columns are null. */
function cell(name: keyof typeof EXPORT_COLUMNS, value: ExportCell, options = PLAIN): string {
  const row = NAMES.map((column) => (column === name ? value : null));
  const line = writeCsvRows([row], options);
  const place = NAMES.indexOf(name);
  expect(line.startsWith(",".repeat(place))).toBe(true);
  expect(line.endsWith(`${",".repeat(NAMES.length - place - 1)}\r\n`)).toBe(true);
  return line.slice(place, line.length - (NAMES.length - place - 1) - 2);
}

describe("the lines of an export", () => {
  it("begin with the column names, with a byte order mark only for Excel", () => {
    expect(writeCsvHeader(PLAIN)).toBe(`${NAMES.join(",")}\r\n`);
    expect(writeCsvHeader(EXCEL)).toBe(`\u{feff}${NAMES.join(",")}\r\n`);
    expect(writeCsvHeader({ excel: false, separator: "semicolon" })).toBe(`${NAMES.join(";")}\r\n`);
    expect(writeCsvHeader({ excel: false, separator: "tab" })).toBe(`${NAMES.join("\t")}\r\n`);
  });

  it("quote characters that would end a cell or a line", () => {
    expect(cell("branch_name", 'Bread, "Butter"')).toBe('"Bread, ""Butter"""');
    expect(cell("branch_name", "two\nlines")).toBe('"two\nlines"');
    expect(cell("branch_name", "two\rlines")).toBe('"two\rlines"');
    expect(writeCsvRows([["a;b"]], { excel: false, separator: "semicolon" })).toMatch(/^"a;b";/);
  });

  it.each([
    "=cmd|' /C calc'!A0",
    "+1",
    "-2",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\u{3000}=1",
    "\u{ff1d}1+1",
    "\u{ff0b}1",
    "\u{ff0d}1",
    "\u{ff20}SUM(A1)",
    "\u{fe66}1+1",
    "\u{fe62}1",
    "\u{fe63}1",
    "\u{fe6b}SUM(A1)",
    "\u{2212}1",
    "\u{0}=1",
    "\u{1b}=1",
    "\u{200b}=1",
    "\u{feff}=1",
    "\u{2060} @SUM(A1)",
    "'\u{200b}=1",
  ])("write the text %j so that no spreadsheet runs it", (text) => {
    for (const options of [PLAIN, EXCEL]) {
      const written = cell("external_order_id", text, options);
      expect(written.replace(/^"/, "")).toMatch(/^'/);
      expect(written.replaceAll(/^"|"$/g, "")).toBe(`'${text}`);
    }
  });

  it("keep other texts, numbers and negative numbers unchanged", () => {
    expect(cell("external_order_id", "a=b")).toBe("a=b");
    expect(cell("external_order_id", "12345678901234567890")).toBe("12345678901234567890");
    expect(cell("revision", -2, EXCEL)).toBe("-2");
    expect(cell("livemode", false, EXCEL)).toBe("false");
    expect(cell("external_order_id", "")).toBe("");
    expect(cell("external_order_id", null)).toBe("");
  });

  it.each(["12345678901234567890", "00123", "1E5", "3-4", "2026-01-02", "1/2", "SEP-2", "mar1"])(
    "keep Excel from reading the id %s as a number or a date",
    (id) => {
      expect(cell("reference", id, EXCEL)).toBe(`"=""${id}"""`);
      expect(cell("reference", id, PLAIN)).toBe(id);
    },
  );

  it.each(["ORD-1", "6f1c7a52-0d7e-4a0e-9d5b-3f0f4c6e2a11", "shop 7", "Märkt"])(
    "write the id %s plainly for Excel, too",
    (id) => {
      expect(cell("reference", id, EXCEL)).toBe(id);
    },
  );

  it("write times as ISO 8601 in UTC, to the microsecond", () => {
    expect(cell("pickup_time", "2026-03-01 09:20:00+00")).toBe("2026-03-01T09:20:00Z");
    expect(cell("updated_at", "2026-03-01 09:20:00.123456+00", EXCEL)).toBe("2026-03-01T09:20:00.123456Z");
  });
});
