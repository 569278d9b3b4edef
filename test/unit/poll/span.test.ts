import { describe, expect, it } from "vitest";
import { makeSpan } from "../../../src/poll/cycle/span.ts";

describe("the span of windows", () => {
  it("is halved after a window that was too large, down to what can be cut, and doubled up to its bound", () => {
    const span = makeSpan({ seconds: 100, max: 150 });
    const window = (seconds: number) => ({ since: 0n, until: BigInt(seconds) * 10n ** 9n });
    span.lengthen();
    expect(span.seconds()).toBe(150);
    span.shorten(window(1_000));
    expect(span.seconds()).toBe(75);
    span.shorten(window(10));
    expect(span.seconds()).toBe(5);
    span.shorten(window(10));
    span.shorten(window(10));
    expect(span.seconds()).toBe(2);
  });
});
