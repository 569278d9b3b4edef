import { describe, expect, it } from "vitest";
import { readRemaining } from "../../../src/provider/rateHeaders.ts";

const headers = (fields: Record<string, string>) => new Headers(fields);

describe("rate headers of an answer", () => {
  it("reads what remains, as the spec shows it", () => {
    const field = '"order-list";r=17;t=4, "sustained";r=180;t=9';
    expect(readRemaining(headers({ ratelimit: field }))).toEqual([
      { policy: "order-list", remaining: 17, resetMs: 4_000 },
      { policy: "sustained", remaining: 180, resetMs: 9_000 },
    ]);
  });

  it("joins several field lines into one list", () => {
    const several = new Headers();
    several.append("ratelimit", '"order-list";r=1;t=2');
    several.append("ratelimit", "sustained;r=3;t=4");
    expect(readRemaining(several).map(({ policy }) => policy)).toEqual(["order-list", "sustained"]);
  });

  it("treats a missing t as an unknown reset", () => {
    expect(readRemaining(headers({ ratelimit: '"sustained";r=3' }))).toEqual([
      { policy: "sustained", remaining: 3, resetMs: null },
    ]);
  });

  it("cuts an absurd t as Retry-After is cut: one header must not stop polling for years", () => {
    expect(readRemaining(headers({ ratelimit: '"order-list";r=0;t=999999999' }))).toEqual([
      { policy: "order-list", remaining: 0, resetMs: 600_000 },
    ]);
  });

  it.each([
    ["no list at all", '"sustained";r=3;t='],
    ["no name", "3;r=3;t=4"],
    ["an inner list", '("sustained");r=3;t=4'],
    ["no r", '"sustained";t=4'],
    ["a negative r", '"sustained";r=-1;t=4'],
    ["a fraction for r", '"sustained";r=1.5;t=4'],
    ["text for r", '"sustained";r="1";t=4'],
    ["nothing", ""],
  ])("ignores a RateLimit with %s", (_, field) => {
    expect(readRemaining(headers({ ratelimit: field }))).toEqual([]);
  });

  it("reads the good entries next to a bad one", () => {
    expect(readRemaining(headers({ ratelimit: '"sustained", "order-list";r=2;t=1' }))).toEqual([
      { policy: "order-list", remaining: 2, resetMs: 1_000 },
    ]);
  });
});
