import { describe, expect, it } from "vitest";
import { parseHttpDate, parseInstant } from "../../../src/domain/order/instant.ts";
import { parseRetryAfter } from "../../../src/provider/rateHeaders.ts";

const SENT_AT = parseInstant("2026-11-20T12:00:00Z");

it.each([
  ["3", 3_000],
  [" 3 ", 3_000],
  ["600", 600_000],
  ["Fri, 20 Nov 2026 12:00:07 GMT", 7_000],
  // At least a second, and otherwise in full.
  ["0", 1_000],
  ["Fri, 20 Nov 2020 12:00:00 GMT", 1_000],
  ["3600", 3_600_000],
  ["Sat, 21 Nov 2026 12:00:00 GMT", 86_400_000],
  ["999999999999999", 3_155_760_000_000],
  // A rate window where nothing is said.
  ...[null, "", "soon", "-1", "1.5", "1e3", "0x10", "3, 4", "2026-11-20T12:00:07Z"].map(
    (field): [string | null, number] => [field, 10_000],
  ),
])("Retry-After of %j is a wait of %d ms", (field, expectedMs) => {
  expect(parseRetryAfter(field, SENT_AT)).toBe(expectedMs);
});

describe("HTTP dates", () => {
  it("are parsed to the second", () => {
    expect(parseHttpDate("Sun, 06 Nov 1994 08:49:37 GMT")).toBe(parseInstant("1994-11-06T08:49:37Z"));
  });

  it.each([
    "",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
    "Sun, 06 Nov 1994 08:49:37 CET",
    "Sun, 31 Feb 1994 08:49:37 GMT",
    "Sun, 06 Foo 1994 08:49:37 GMT",
    "Sun, 06 Nov 1994 25:49:37 GMT",
    "2026",
  ])("are not guessed from %j", (field) => {
    expect(parseHttpDate(field)).toBeNull();
  });
});
