import fc from "fast-check";
import { expect, it } from "vitest";
import { gaps, merge } from "../../../src/domain/window/coverage.ts";
import type { Window } from "../../../src/domain/window/window.ts";

const span = (since: number, until: number): Window => ({ since: BigInt(since), until: BigInt(until) });
const anyWindow = fc
  .tuple(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 15 }))
  .map(([since, length]) => span(since, since + length));
const anyWindows = fc.array(anyWindow, { maxLength: 12 });
const covers = (windows: readonly Window[], point: number) =>
  windows.some(({ since, until }) => since <= point && point < until);
const points = Array.from({ length: 60 }, (_, point) => point);

it("merging covers the same points, with ascending windows that do not touch", () => {
  fc.assert(
    fc.property(anyWindows, (windows) => {
      const merged = merge(windows);
      for (const point of points) expect(covers(merged, point)).toBe(covers(windows, point));
      for (const [index, { since, until }] of merged.entries()) {
        expect(until > since && (index === 0 || since > merged[index - 1]!.until)).toBe(true);
      }
    }),
  );
});

it("gaps are what no window covers", () => {
  expect(gaps(span(0, 10), [span(2, 4), span(4, 5), span(8, 20)])).toEqual([span(0, 2), span(5, 8)]);
  fc.assert(
    fc.property(anyWindow, anyWindows, (within, windows) => {
      const left = gaps(within, windows);
      for (const point of points) {
        expect(covers(left, point)).toBe(covers([within], point) && !covers(windows, point));
      }
    }),
  );
});
