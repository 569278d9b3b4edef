import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gaps, merge } from "../../../src/domain/window/coverage.ts";
import { safeThrough } from "../../support/virtual/safeThroughModel.ts";
import type { Window } from "../../../src/domain/window/window.ts";

const span = (since: number, until: number): Window => ({ since: BigInt(since), until: BigInt(until) });
const anyWindow = fc
  .tuple(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 15 }))
  .map(([since, length]) => span(since, since + length));
const anyWindows = fc.array(anyWindow, { maxLength: 12 });
const covers = (windows: readonly Window[], point: number) =>
  windows.some(({ since, until }) => since <= point && point < until);
const points = Array.from({ length: 60 }, (_, point) => point);

describe("merging", () => {
  it("joins windows that overlap or touch, and keeps others separate", () => {
    expect(merge([span(5, 7), span(0, 2), span(2, 3), span(6, 9)])).toEqual([span(0, 3), span(5, 9)]);
    expect(merge([span(0, 2), span(3, 4)])).toEqual([span(0, 2), span(3, 4)]);
    expect(merge([span(1, 1)])).toEqual([]);
  });
  it("covers the same points, with ascending windows that do not touch", () => {
    fc.assert(
      fc.property(anyWindows, (windows) => {
        const merged = merge(windows);
        for (const point of points) expect(covers(merged, point)).toBe(covers(windows, point));
        for (const [index, { since }] of merged.entries()) {
          expect(index === 0 || since > merged[index - 1]!.until).toBe(true);
        }
      }),
    );
  });
});

describe("gaps", () => {
  it("are what no window covers", () => {
    expect(gaps(span(0, 10), [span(2, 4), span(4, 5), span(8, 20)])).toEqual([span(0, 2), span(5, 8)]);
    expect(gaps(span(0, 10), [])).toEqual([span(0, 10)]);
    expect(gaps(span(0, 10), [span(0, 10)])).toEqual([]);
  });
  it("together with the windows cover every point once", () => {
    fc.assert(
      fc.property(anyWindow, anyWindows, (within, windows) => {
        const left = gaps(within, windows);
        for (const point of points) {
          expect(covers(left, point)).toBe(covers([within], point) && !covers(windows, point));
        }
      }),
    );
  });
});

describe("safe through", () => {
  it("moves to the end of the contiguous windows that contain it, and stops at a gap", () => {
    expect(safeThrough(5n, [span(0, 8), span(8, 12), span(13, 20)])).toBe(12n);
    expect(safeThrough(12n, [span(13, 20)])).toBe(12n);
    expect(safeThrough(12n, [span(12, 20)])).toBe(20n);
  });
  it("never goes back and never claims an uncovered point", () => {
    fc.assert(
      fc.property(fc.nat(40), anyWindows, (reached, windows) => {
        const through = Number(safeThrough(BigInt(reached), windows));
        expect(through).toBeGreaterThanOrEqual(reached);
        for (let point = reached; point < through; point += 1) expect(covers(windows, point)).toBe(true);
      }),
    );
  });
});
