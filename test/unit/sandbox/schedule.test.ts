import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { isCovered, resolveTimes } from "../../../src/sandbox/world/routing.ts";
import { cutTo, formatTime } from "../../../src/sandbox/api/orderRow.ts";

const resolve = (now: string, change: Partial<Parameters<typeof resolveTimes>[0]> = {}) =>
  resolveTimes({
    seed: 1,
    branchId: "b",
    distanceKm: 2,
    now: parseInstant(now),
    utcOffsetMinutes: 60,
    fleetSpeed: 1,
    ...change,
  });

describe("resolved times", () => {
  it("are whole minutes, pickup after now and delivery after pickup", () => {
    fc.assert(
      fc.property(
        fc.bigInt(0n, 4n * 10n ** 18n),
        fc.double({ min: 0, max: 200, noNaN: true }),
        (now, distanceKm) => {
          const { pickupTime, deliveryTime } = resolve("2026-01-05T08:00:00Z", { now, distanceKm });
          expect(pickupTime).toBeGreaterThan(now);
          expect(deliveryTime).toBeGreaterThan(pickupTime);
          expect([pickupTime % 60_000_000_000n, deliveryTime % 60_000_000_000n]).toEqual([0n, 0n]);
        },
      ),
    );
  });

  it("stay the same within five minutes, so that an order soon after its quote gets the same times", () => {
    expect(resolve("2026-01-05T08:00:00.001Z")).toEqual(resolve("2026-01-05T08:05:00Z"));
    expect(resolve("2026-01-05T08:05:00.001Z")).not.toEqual(resolve("2026-01-05T08:05:00Z"));
  });

  it("take longer in the busy hours of the local day, from 11:30 and until before 13:30", () => {
    for (const [now, basis] of [
      ["2026-01-05T10:25:00Z", "asap"],
      ["2026-01-05T10:30:00Z", "busy_hours"],
      ["2026-01-05T12:25:00Z", "busy_hours"],
      ["2026-01-05T12:30:00Z", "asap"],
      ["2026-01-05T16:30:00Z", "busy_hours"],
    ] as const) {
      expect([now, resolve(now).basis]).toEqual([now, basis]);
    }
    const calm = resolve("2026-01-05T09:00:00Z").pickupTime - parseInstant("2026-01-05T09:00:00Z");
    const busy = resolve("2026-01-05T11:00:00Z").pickupTime - parseInstant("2026-01-05T11:00:00Z");
    expect(busy - calm).toBe(15n * 60_000_000_000n);
  });
});

describe("shifts", () => {
  const covered = (from: number, until: number, now: string) =>
    isCovered([{ fromMinute: from * 60, untilMinute: until * 60 }], parseInstant(now), 60);

  it("include their start and exclude their end, in local time", () => {
    expect(covered(17, 22, "2026-01-05T15:59:59Z")).toBe(false);
    expect(covered(17, 22, "2026-01-05T16:00:00Z")).toBe(true);
    expect(covered(17, 22, "2026-01-05T20:59:59Z")).toBe(true);
    expect(covered(17, 22, "2026-01-05T21:00:00Z")).toBe(false);
  });

  it("may last all day, or not exist", () => {
    expect(covered(0, 24, "2026-01-05T22:59:59Z")).toBe(true);
    expect(isCovered([], parseInstant("2026-01-05T12:00:00Z"), 60)).toBe(false);
  });
});

describe("formatted times", () => {
  it("have the requested offset and digits", () => {
    const instant = parseInstant("2026-01-05T23:30:00.123456789Z");
    expect(formatTime(instant, "s", 60)).toBe("2026-01-06T00:30:00+01:00");
    expect(formatTime(instant, "ms", 0)).toBe("2026-01-05T23:30:00.123+00:00");
    expect(formatTime(instant, "us", -210)).toBe("2026-01-05T20:00:00.123456-03:30");
    expect(formatTime(instant, "ns", 330)).toBe("2026-01-06T05:00:00.123456789+05:30");
  });

  it("state the instant truncated to their granularity", () => {
    const granularity = fc.constantFrom("s", "ms", "us", "ns");
    fc.assert(
      fc.property(
        fc.bigInt(0n, 4n * 10n ** 18n),
        granularity,
        fc.integer({ min: -720, max: 840 }),
        (now, unit, offset) => {
          const cut = cutTo(now, unit);
          expect(parseInstant(formatTime(now, unit, offset))).toBe(cut);
          expect(cut).toBeLessThanOrEqual(now);
        },
      ),
    );
  });
});
