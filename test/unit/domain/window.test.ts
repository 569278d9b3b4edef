import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import {
  BOUND_GRANULE,
  firstPart,
  halve,
  nextWindow,
  settledUntil,
  widen,
} from "../../../src/domain/window/window.ts";

const at = (time: string) => parseInstant(`2026-03-01T${time}Z`);
const window = (since: string, until: string) => ({ since: at(since), until: at(until) });

describe("the end of the readable time", () => {
  it("is the provider's time minus the settle time, truncated to a whole second", () => {
    expect(settledUntil({ providerNow: at("09:00:07.9"), settleSeconds: 5 })).toBe(at("09:00:02"));
    expect(settledUntil({ providerNow: at("09:00:08"), settleSeconds: 5 })).toBe(at("09:00:03"));
  });
});

describe("the next window of the fast sweep", () => {
  const options = { overlapSeconds: 60, spanMaxSeconds: 3_600 };
  it("extends from the overlap before the cursor to the end", () => {
    const next = nextWindow({ ...options, polledThrough: at("09:00:00"), end: at("09:00:30") });
    expect(next).toEqual(window("08:59:00", "09:00:30"));
  });
  it("extends no further beyond the cursor than the longest span", () => {
    const next = nextWindow({ ...options, polledThrough: at("09:00:00"), end: at("15:00:00") });
    expect(next).toEqual(window("08:59:00", "10:00:00"));
    const whole = nextWindow({ ...options, polledThrough: at("09:00:00"), end: at("10:00:00") });
    expect(whole).toEqual(window("08:59:00", "10:00:00"));
  });
  it("still reads the provider's present when its clock went back behind the cursor", () => {
    const next = nextWindow({ ...options, polledThrough: at("09:10:00"), end: at("09:00:00") });
    expect(next).toEqual(window("08:59:00", "09:00:00"));
  });
  it("is never empty", () => {
    const next = nextWindow({
      ...options,
      overlapSeconds: 0,
      polledThrough: at("09:00:00"),
      end: at("09:00:00"),
    });
    expect(next).toEqual(window("08:59:59", "09:00:00"));
  });
});

describe("widening and cutting", () => {
  it("widens both sides by a granule", () => {
    expect(widen(window("09:00:00", "09:01:00"), BOUND_GRANULE)).toEqual(window("08:59:59", "09:01:01"));
  });
  it("takes the first part of a window, or all of a short one", () => {
    expect(firstPart(window("09:00:00", "10:00:00"), 60)).toEqual(window("09:00:00", "09:01:00"));
    expect(firstPart(window("09:00:00", "09:01:00"), 60)).toEqual(window("09:00:00", "09:01:00"));
  });
  it("halves until halves would not be shorter, and never leaves a gap", () => {
    expect(halve(window("09:00:00", "09:00:02"), BOUND_GRANULE)).toBeUndefined();
    expect(halve(window("09:00:00", "09:00:03"), BOUND_GRANULE)).toEqual([
      window("09:00:00", "09:00:02"),
      window("09:00:01", "09:00:03"),
    ]);
    fc.assert(
      fc.property(
        fc.bigInt({ min: -1_000_000_000n, max: 1_000_000_000n }),
        fc.bigInt({ min: 1n, max: 1_000_000n }),
        fc.constantFrom(1n, 1_000n, 1_000_000n, 1_000_000_000n),
        (from, span, granule) => {
          const whole = { since: from * granule, until: (from + span) * granule };
          const halves = halve(whole, granule);
          const [left, right] = halves ?? [];
          expect(halves === undefined).toBe(span <= 2n);
          // An order at the cut is read even when `since` is exclusive, and both parts are shorter.
          const shorter = left && right && right.since > whole.since && left.until < whole.until;
          expect(shorter && [left.since, right.since, right.until]).toEqual(
            halves && [whole.since, left!.until - granule, whole.until],
          );
        },
      ),
    );
  });
});
