import { describe, expect, it } from "vitest";
import { parseHttpDate, parseInstant } from "../../../src/domain/order/instant.ts";
import { parseRetryAfter } from "../../../src/provider/rateHeaders.ts";

const SENT_AT = parseInstant("2026-11-20T12:00:00Z");

describe("Retry-After", () => {
  it.each([
    ["3", 3_000],
    [" 3 ", 3_000],
    ["1", 1_000],
    ["600", 600_000],
    ["Fri, 20 Nov 2026 12:00:07 GMT", 7_000],
  ])("waits as long as %j says", (field, expectedMs) => {
    expect(parseRetryAfter(field, SENT_AT)).toBe(expectedMs);
  });

  it.each([
    ["0", 1_000],
    ["Fri, 20 Nov 2026 12:00:00 GMT", 1_000],
    ["Fri, 20 Nov 2020 12:00:00 GMT", 1_000],
  ])("waits at least a second for %j", (field, expectedMs) => {
    expect(parseRetryAfter(field, SENT_AT)).toBe(expectedMs);
  });

  it.each([
    ["601", 600_000],
    ["999999999999999", 600_000],
    ["Fri, 20 Nov 2099 12:00:00 GMT", 600_000],
  ])("waits at most ten minutes for %j", (field, expectedMs) => {
    expect(parseRetryAfter(field, SENT_AT)).toBe(expectedMs);
  });

  it.each([
    null,
    "",
    "soon",
    "-1",
    "1.5",
    "1e3",
    "0x10",
    "3, 4",
    "2026-11-20T12:00:07Z",
    "99999999999999999999",
  ])("waits one rate window for %j", (field) => {
    expect(parseRetryAfter(field, SENT_AT)).toBe(10_000);
  });
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
