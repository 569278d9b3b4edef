import { describe, expect, it } from "vitest";
import { EXPORT_COLUMNS, writeCsvRows, type ExportCell } from "../../../src/orders/exportOrders.sql.ts";

const NAMES = Object.keys(EXPORT_COLUMNS);

/** The text of the named cell in the line of an order whose other columns are null. */
function cell(name: keyof typeof EXPORT_COLUMNS, value: ExportCell): string {
  const row = NAMES.map((column) => (column === name ? value : null));
  const line = writeCsvRows([row]);
  const place = NAMES.indexOf(name);
  expect(line.startsWith(",".repeat(place))).toBe(true);
  expect(line.endsWith(`${",".repeat(NAMES.length - place - 1)}\r\n`)).toBe(true);
  return line.slice(place, line.length - (NAMES.length - place - 1) - 2);
}

describe("the lines of an export", () => {
  it("quote characters that would end a cell or a line", () => {
    expect(cell("branch_name", 'Bread, "Butter"')).toBe('"Bread, ""Butter"""');
    expect(cell("branch_name", "two\nlines")).toBe('"two\nlines"');
    expect(cell("branch_name", "two\rlines")).toBe('"two\rlines"');
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
    const written = cell("external_order_id", text);
    expect(written.replace(/^"/, "")).toMatch(/^'/);
    expect(written.replaceAll(/^"|"$/g, "")).toBe(`'${text}`);
  });

  it("keep other texts, numbers and negative numbers unchanged", () => {
    expect(cell("external_order_id", "a=b")).toBe("a=b");
    expect(cell("external_order_id", "12345678901234567890")).toBe("12345678901234567890");
    expect(cell("revision", -2)).toBe("-2");
    expect(cell("livemode", false)).toBe("false");
    expect(cell("external_order_id", "")).toBe("");
    expect(cell("external_order_id", null)).toBe("");
  });

  it("write times as ISO 8601 in UTC, to the microsecond", () => {
    expect(cell("pickup_time", "2026-03-01 09:20:00+00")).toBe("2026-03-01T09:20:00Z");
    expect(cell("updated_at", "2026-03-01 09:20:00.123456+00")).toBe("2026-03-01T09:20:00.123456Z");
  });
});
