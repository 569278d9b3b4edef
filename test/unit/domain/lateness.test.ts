import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ARRIVAL_AGE_MAX_SECONDS,
  boundOf,
  lateTailSeconds,
  OVERLAP_MAX_SECONDS,
  SETTLE_MAX_SECONDS,
  tuneMargins,
} from "../../../src/domain/window/lateness.ts";
import type { ArrivalCount } from "../../../src/domain/window/lateness.ts";

const configured = { settleSeconds: 5, overlapSeconds: 60 };
const onTime = (changes: number): ArrivalCount => ({ missedSeconds: 0, seenSeconds: 30, changes });
const late = (missedSeconds: number, seenSeconds: number, changes = 1): ArrivalCount => ({
  missedSeconds,
  seenSeconds,
  changes,
});

const ages = fc.integer({ min: 0, max: 2_000 });
const arrivals = fc.array(
  fc
    .record({
      missed: fc.oneof(fc.constant(0), ages),
      more: ages,
      changes: fc.integer({ min: 1, max: 100_000 }),
    })
    .map(({ missed, more, changes }) => ({
      missedSeconds: boundOf(missed),
      seenSeconds: boundOf(missed + more),
      changes,
    })),
  { maxLength: 20 },
);
const margins = fc.record({
  settleSeconds: fc.integer({ min: 0, max: 3_600 }),
  overlapSeconds: fc.integer({ min: 0, max: 86_400 }),
});

describe("tuning", () => {
  it("keeps the configured margins while nothing is late", () => {
    expect(tuneMargins([], configured)).toEqual(configured);
    expect(tuneMargins([onTime(1_000_000)], configured)).toEqual(configured);
  });
  it("reads back twice as far as late changes need, unless they are one in a thousand", () => {
    expect(tuneMargins([onTime(998), late(7, 45)], configured).overlapSeconds).toBe(90);
    expect(tuneMargins([onTime(999), late(7, 45)], configured).overlapSeconds).toBe(60);
    expect(lateTailSeconds([onTime(999), late(7, 45)])).toBe(45);
  });
  it("settles for as long as all but one change in a hundred need", () => {
    expect(tuneMargins([onTime(98), late(7, 45)], configured).settleSeconds).toBe(7);
    expect(tuneMargins([onTime(99), late(7, 45)], configured).settleSeconds).toBe(5);
  });
  it("stays within its bounds, unless a configured value is greater", () => {
    fc.assert(
      fc.property(arrivals, margins, (counts, least) => {
        const tuned = tuneMargins(counts, least);
        expect(tuned.settleSeconds).toBeGreaterThanOrEqual(least.settleSeconds);
        expect(tuned.settleSeconds).toBeLessThanOrEqual(Math.max(least.settleSeconds, SETTLE_MAX_SECONDS));
        expect(tuned.overlapSeconds).toBeGreaterThanOrEqual(least.overlapSeconds);
        expect(tuned.overlapSeconds).toBeLessThanOrEqual(Math.max(least.overlapSeconds, OVERLAP_MAX_SECONDS));
      }),
    );
  });
  it("covers nearly every late change twice, or has reached its bound", () => {
    fc.assert(
      fc.property(arrivals, (counts) => {
        const { overlapSeconds } = tuneMargins(counts, configured);
        const beyond = counts
          .filter(({ missedSeconds, seenSeconds }) => missedSeconds > 0 && 2 * seenSeconds > overlapSeconds)
          .reduce((sum, { changes }) => sum + changes, 0);
        const total = counts.reduce((sum, { changes }) => sum + changes, 0);
        expect(overlapSeconds === OVERLAP_MAX_SECONDS || beyond <= total * 0.001).toBe(true);
      }),
    );
  });
  it("does not depend on the sequence or grouping of the counts", () => {
    fc.assert(
      fc.property(arrivals, (counts) => {
        const split = counts.flatMap((count) => [
          { ...count, changes: 1 },
          { ...count, changes: count.changes - 1 },
        ]);
        expect(tuneMargins(split.toReversed(), configured)).toEqual(tuneMargins(counts, configured));
      }),
    );
  });
  it("never narrows for a change that is later than all others", () => {
    fc.assert(
      fc.property(arrivals, (counts) => {
        const before = tuneMargins(counts, configured);
        const more = [...counts, late(ARRIVAL_AGE_MAX_SECONDS, ARRIVAL_AGE_MAX_SECONDS)];
        const after = tuneMargins(more, configured);
        expect(after.settleSeconds).toBeGreaterThanOrEqual(before.settleSeconds);
        expect(after.overlapSeconds).toBeGreaterThanOrEqual(before.overlapSeconds);
      }),
    );
  });
});

it.each([
  [0, 0],
  [0.1, 1],
  [1, 1],
  [1.01, 2],
  [60, 60],
  [5_000, 7_200],
  [50_000, 21_600],
])("counts an age of %s s under %s s", (age, bound) => {
  expect(boundOf(age)).toBe(bound);
});
