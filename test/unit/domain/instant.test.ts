import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidInstantError } from "../../../src/domain/errors.ts";
import {
  addSeconds,
  ceilTo,
  floorTo,
  formatInstant,
  instantFromMillis,
  microsFromInstant,
  millisFromInstant,
  parseInstant,
  tryParseInstant,
} from "../../../src/domain/order/instant.ts";

const INSTANT = fc.bigInt({ min: -9_214_560_000n * 10n ** 9n, max: 9_214_646_400n * 10n ** 9n - 1n });

describe("parseInstant", () => {
  it.each([
    ["1970-01-01T00:00:00Z", 0n],
    ["1970-01-01T00:00:00.000000001Z", 1n],
    ["1969-12-31T23:59:59.999999999Z", -1n],
    ["2026-11-20T14:32:07+01:00", 1_795_181_527_000_000_000n],
    ["2026-11-20T13:32:07Z", 1_795_181_527_000_000_000n],
    ["2026-11-20t13:32:07z", 1_795_181_527_000_000_000n],
    ["2026-11-20 13:32:07+00", 1_795_181_527_000_000_000n],
    ["2026-11-20T12:02:07-0130", 1_795_181_527_000_000_000n],
    ["2026-11-20T13:32Z", 1_795_181_520_000_000_000n],
    ["2026-11-20T13:32:07,5Z", 1_795_181_527_500_000_000n],
    ["2026-11-20T13:32:07.1234567899Z", 1_795_181_527_123_456_789n],
    ["2024-02-29T00:00:00Z", 1_709_164_800_000_000_000n],
    ["2016-12-31T23:59:60Z", 1_483_228_800_000_000_000n],
    ["1678-01-01T00:00:00Z", -9_214_560_000_000_000_000n],
    ["2261-12-31T23:59:59.999999999Z", 9_214_646_399_999_999_999n],
  ])("reads %s to the nanosecond", (text, instant) => {
    expect(parseInstant(text)).toBe(instant);
  });

  it.each([
    ["", "nothing"],
    ["2026-11-20T13:32:07", "no time zone"],
    ["2026-11-20", "no time"],
    ["2025-02-29T00:00:00Z", "a day that does not exist"],
    ["1900-02-29T00:00:00Z", "a century is no leap year"],
    ["2026-13-01T00:00:00Z", "month 13"],
    ["2026-00-01T00:00:00Z", "month 0"],
    ["2026-04-31T00:00:00Z", "31 April"],
    ["2026-11-20T24:00:00Z", "hour 24"],
    ["2026-11-20T13:60:00Z", "minute 60"],
    ["2026-11-20T13:32:61Z", "second 61"],
    ["2026-11-20T13:32:07+24:00", "offset of a day"],
    ["2026-11-20T13:32:07.Z", "a point without digits"],
    ["2262-01-01T00:00:00Z", "a year that 64 bits hold in part"],
    ["1677-12-31T23:59:59.999999999Z", "a year that 64 bits hold in part"],
    ["2026-11-20T13:32:07Z\n", "white space at the end"],
    ["now", "a word that Postgres would take"],
  ])("refuses %j: %s", (text) => {
    expect(() => parseInstant(text)).toThrow(InvalidInstantError);
    expect([text, [text], null, 5].map(tryParseInstant)).toEqual(Array(4).fill(undefined));
  });

  it("shifts by exactly the offset", () => {
    fc.assert(
      fc.property(fc.integer({ min: -1439, max: 1439 }), (minutes) => {
        const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60].map((n) =>
          `${n}`.padStart(2, "0"),
        );
        const text = `2026-03-01T10:00:00${minutes < 0 ? "-" : "+"}${hours}:${rest}`;
        expect(parseInstant(text)).toBe(
          parseInstant("2026-03-01T10:00:00Z") - BigInt(minutes) * 60_000_000_000n,
        );
      }),
    );
  });
});

describe("formatInstant", () => {
  it("is parsed back exactly", () => {
    fc.assert(
      fc.property(INSTANT, (instant) => {
        expect(parseInstant(formatInstant(instant))).toBe(instant);
      }),
    );
  });

  it.each([
    [0n, undefined, "1970-01-01T00:00:00Z"],
    [1_500_000_000n, undefined, "1970-01-01T00:00:01.5Z"],
    [-1n, undefined, "1969-12-31T23:59:59.999999999Z"],
    [999_999_999n, 6, "1970-01-01T00:00:00.999999Z"],
    [999_999_999n, 0, "1970-01-01T00:00:00Z"],
    [0n, 3, "1970-01-01T00:00:00.000Z"],
  ])("writes %s with digits %s as %s, cutting and never rounding", (instant, digits, text) => {
    expect(formatInstant(instant, digits)).toBe(text);
  });
});

describe("granules", () => {
  it("bracket the instant within one granule", () => {
    fc.assert(
      fc.property(INSTANT, fc.constantFrom(1n, 1_000n, 1_000_000n, 1_000_000_000n), (instant, granule) => {
        const floor = floorTo(instant, granule);
        const ceil = ceilTo(instant, granule);
        expect(floor <= instant && instant <= ceil).toBe(true);
        expect(floor % granule).toBe(0n);
        expect(ceil - floor).toBe(instant % granule === 0n ? 0n : granule);
      }),
    );
  });

  it("convert to microseconds towards the past, as the text with six digits does", () => {
    expect(microsFromInstant(-1n)).toBe(-1n);
    expect(microsFromInstant(1_999n)).toBe(1n);
    fc.assert(
      fc.property(INSTANT, (instant) => {
        expect(microsFromInstant(instant) * 1_000n).toBe(parseInstant(formatInstant(instant, 6)));
      }),
    );
  });

  it("convert to and from milliseconds towards the past", () => {
    expect(millisFromInstant(-1n)).toBe(-1);
    expect(millisFromInstant(1_999_999n)).toBe(1);
    expect(instantFromMillis(1.9)).toBe(1_000_000n);
    expect(addSeconds(0n, 1.5)).toBe(1_500_000_000n);
    expect(addSeconds(0n, -0.25)).toBe(-250_000_000n);
  });
});
