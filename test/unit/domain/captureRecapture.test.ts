import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { COMMON_MIN, estimateUnseen } from "../../../src/domain/captureRecapture.ts";
import { makeRandom } from "../../support/faults/random.ts";

/** Two independent ways of seeing `size` members. */
function capture(
  random: () => number,
  { size, chances }: { size: number; chances: readonly [number, number] },
) {
  const counts = { first: 0, second: 0, both: 0, seen: 0 };
  for (let member = 0; member < size; member += 1) {
    const [first, second] = chances.map((chance) => random() < chance);
    if (first) counts.first += 1;
    if (second) counts.second += 1;
    if (first && second) counts.both += 1;
    if (first || second) counts.seen += 1;
  }
  return { ...counts, unseen: size - counts.seen };
}

describe("the estimate of what neither way saw", () => {
  it.each<[number, [number, number]]>([
    [200, [0.5, 0.6]],
    [200, [0.9, 0.95]],
    [1_000, [0.3, 0.4]],
    [1_000, [0.9, 0.9]],
    [3_000, [0.98, 0.99]],
    [3_000, [0.999, 0.7]],
    [3_000, [0.9999, 0.9999]],
  ])("has an interval that covers the truth: %i members, chances %j", (size, chances) => {
    const random = makeRandom(size + chances[0] * 1_000);
    const worlds = 400;
    let covered = 0;
    let error = 0;
    for (let world = 0; world < worlds; world += 1) {
      const { unseen, ...captures } = capture(random, { size, chances });
      const estimate = estimateUnseen(captures)!;
      if (estimate.low <= unseen && unseen <= estimate.high) covered += 1;
      error += estimate.unseen - unseen;
    }
    // 95 % less three standard deviations of 400 trials.
    expect(covered / worlds).toBeGreaterThanOrEqual(0.917);
    expect(Math.abs(error / worlds)).toBeLessThan(
      Math.max(1, size * (1 - chances[0]) * (1 - chances[1]) * 0.2),
    );
  });

  it("lies within its interval, and is zero only if one way saw everything that the other one saw", () => {
    const counts = fc.record({
      both: fc.integer({ min: COMMON_MIN, max: 1_000_000 }),
      onlyFirst: fc.nat(100_000),
      onlySecond: fc.nat(100_000),
    });
    fc.assert(
      fc.property(counts, ({ both, onlyFirst, onlySecond }) => {
        const { unseen, low, high } = estimateUnseen({
          first: both + onlyFirst,
          second: both + onlySecond,
          both,
        })!;
        expect(low).toBeGreaterThanOrEqual(0);
        expect(low).toBeLessThanOrEqual(unseen);
        expect(high).toBeGreaterThanOrEqual(unseen);
        expect(Number.isInteger(low) && Number.isInteger(high)).toBe(true);
        expect(unseen === 0).toBe(onlyFirst === 0 || onlySecond === 0);
      }),
    );
  });

  it("does not depend on which way is called the first", () => {
    fc.assert(
      fc.property(fc.nat(500), fc.nat(500), fc.integer({ min: COMMON_MIN, max: 5_000 }), (a, b, both) => {
        expect(estimateUnseen({ first: both + a, second: both + b, both })).toEqual(
          estimateUnseen({ first: both + b, second: both + a, both }),
        );
      }),
    );
  });

  it("is absent when too few were seen in both ways", () => {
    expect(estimateUnseen({ first: 1_000, second: 1_000, both: COMMON_MIN - 1 })).toBeUndefined();
    expect(estimateUnseen({ first: 0, second: 0, both: 0 })).toBeUndefined();
  });
});
