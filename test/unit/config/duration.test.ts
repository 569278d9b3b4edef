import { expect, it } from "vitest";
import { formatInstant, parseInstant } from "../../../src/domain/order/instant.ts";
import { parseDuration, resolveSince } from "../../../src/config/duration.ts";

const since = (text: string, now: string) => formatInstant(resolveSince(text, parseInstant(now)));

it("reads every part of a duration", () => {
  const days = 366 + 2 * 31 + 3 * 7 + 4;
  expect(parseDuration("P1Y2M3W4DT5H6M7S")).toBe(days * 86_400 + 5 * 3_600 + 6 * 60 + 7);
  expect(parseDuration("PT0S")).toBe(0);
});

const NO_INSTANTS = ["2026-01-31T00:00:00", "2026-02-30", "2026-1-31", "7 d", "7", "d", "1.5h", "7y"];
it.each([
  "",
  "P",
  "PT",
  "P1DT",
  "30D",
  "P30",
  "p30d",
  "P-1D",
  "-P1D",
  "P1.5D",
  "P1D1Y",
  "PT1D",
  "P1D ",
  "P1H",
  ...NO_INSTANTS,
])("does not take %j for a duration or an instant", (text) => {
  expect(parseDuration(text)).toBeUndefined();
  expect(() => resolveSince(text, 0n)).toThrow("neither a duration, a date, nor an instant");
});

it.each([
  ["P30D", "2026-03-31T12:00:00Z", "2026-03-01T12:00:00Z"],
  ["P1M", "2026-03-31T12:00:00Z", "2026-02-28T12:00:00Z"],
  ["P1Y", "2025-02-28T00:00:00Z", "2024-02-28T00:00:00Z"],
  ["P2W", "2026-01-10T00:00:00Z", "2025-12-27T00:00:00Z"],
  ["P1MT1H", "2026-01-01T00:30:00Z", "2025-11-30T23:30:00Z"],
  ["PT90M", "2026-01-01T01:00:00Z", "2025-12-31T23:30:00Z"],
  ["P999999Y", "2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z"],
  ["7d", "2026-01-10T12:00:00Z", "2026-01-03T12:00:00Z"],
  ["2w", "2026-01-15T12:00:00Z", "2026-01-01T12:00:00Z"],
  ["36h", "2026-01-10T12:00:00Z", "2026-01-09T00:00:00Z"],
  ["90m", "2026-01-10T12:00:00Z", "2026-01-10T10:30:00Z"],
  ["30s", "2026-01-10T12:00:00Z", "2026-01-10T11:59:30Z"],
  ["2026-01-31", "2026-03-31T12:00:00Z", "2026-01-31T00:00:00Z"],
  ["2026-01-31T00:00:00+01:00", "2026-03-31T12:00:00Z", "2026-01-30T23:00:00Z"],
])("counts %s back from %s to %s", (text, now, expected) => {
  expect(since(text, now)).toBe(expected);
});
