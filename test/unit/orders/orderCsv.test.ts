import { describe, expect, it } from "vitest";
import { types } from "pg";
import { writeCsv, type ExportRows } from "../../../src/orders/exportOrders.sql.ts";

const { BOOL, INT4, INT8, TEXT, TIMESTAMPTZ } = types.builtins;
/** Columns of reporting.orders, with the types that Postgres names in its answers. */
const COLUMNS = {
  branch_name: TEXT,
  external_order_id: TEXT,
  livemode: BOOL,
  pickup_time: TIMESTAMPTZ,
  updated_at: TIMESTAMPTZ,
  version: INT8,
  revision: INT4,
};

/** The text of the named cell between two that are null. */
function cell(name: keyof typeof COLUMNS, value: ExportRows["rows"][number][number]): string {
  const fields = ["before", name, "after"].map((each) => ({ name: each, dataTypeID: COLUMNS[name] }));
  const lines = writeCsv({ fields, rows: [[null, value, null]] });
  expect(lines.startsWith(`before,${name},after\r\n,`)).toBe(true);
  expect(lines.endsWith(",\r\n")).toBe(true);
  return lines.slice(`before,${name},after\r\n,`.length, -",\r\n".length);
}

describe("the lines of an export", () => {
  it("quote characters that would end a cell or a line", () => {
    expect(cell("branch_name", 'Bread, "Butter"')).toBe('"Bread, ""Butter"""');
    expect(cell("branch_name", "two\nlines")).toBe('"two\nlines"');
    expect(cell("branch_name", "two\rlines")).toBe('"two\rlines"');
  });

  it("write a text that a spreadsheet would run so that none does", () => {
    const signs = Array.from("=+-@\u{2212}\u{ff1d}\u{ff0b}\u{ff0d}\u{ff20}\u{fe66}\u{fe62}\u{fe63}\u{fe6b}");
    const before = ["", " ", "\u{3000}", "\u{0}", "\u{1b}", "\u{200b}", "\u{feff}", "\u{2060} ", "'\u{200b}"];
    const formulas = before.flatMap((each) => signs.map((sign) => `${each}${sign}SUM(A1)`));
    for (const text of [...formulas, "=cmd|' /C calc'!A0", "\t1", "\r1", "\n1"])
      expect(cell("external_order_id", text).replaceAll(/^"|"$/g, "")).toBe(`'${text}`);
  });

  it("keep other texts, numbers and negative numbers unchanged", () => {
    expect(cell("external_order_id", "a=b")).toBe("a=b");
    expect(cell("external_order_id", "12345678901234567890")).toBe("12345678901234567890");
    expect(cell("revision", -2)).toBe("-2");
    expect(cell("version", "-1767600000000000000")).toBe("-1767600000000000000");
    expect(cell("livemode", false)).toBe("false");
    expect(cell("external_order_id", "")).toBe("");
    expect(cell("external_order_id", null)).toBe("");
  });

  it("write times as ISO 8601 in UTC, to the microsecond", () => {
    expect(cell("pickup_time", "2026-03-01 09:20:00+00")).toBe("2026-03-01T09:20:00Z");
    expect(cell("updated_at", "2026-03-01 09:20:00.123456+00")).toBe("2026-03-01T09:20:00.123456Z");
  });
});
