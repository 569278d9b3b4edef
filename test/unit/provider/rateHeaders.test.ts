import { describe, expect, it } from "vitest";
import { readRateHeaders } from "../../../src/provider/rateHeaders.ts";

const headers = (fields: Record<string, string>) => new Headers(fields);

describe("rate headers of an answer", () => {
  it("reads policies and what remains, as the spec shows them", () => {
    const answer = readRateHeaders(
      headers({
        "ratelimit-policy": '"order-list";q=20;w=10, "sustained";q=200;w=10',
        ratelimit: '"order-list";r=17;t=4, "sustained";r=180;t=9',
      }),
    );
    expect(answer.declared).toEqual([
      { policy: "order-list", requestsMax: 20, windowMs: 10_000 },
      { policy: "sustained", requestsMax: 200, windowMs: 10_000 },
    ]);
    expect(answer.remaining).toEqual([
      { policy: "order-list", remaining: 17, resetMs: 4_000 },
      { policy: "sustained", remaining: 180, resetMs: 9_000 },
    ]);
  });

  it("joins several field lines into one list", () => {
    const several = new Headers();
    several.append("ratelimit", '"order-list";r=1;t=2');
    several.append("ratelimit", "sustained;r=3;t=4");
    expect(readRateHeaders(several).remaining.map(({ policy }) => policy)).toEqual([
      "order-list",
      "sustained",
    ]);
  });

  it("treats a missing t as an unknown reset", () => {
    expect(readRateHeaders(headers({ ratelimit: '"sustained";r=3' })).remaining).toEqual([
      { policy: "sustained", remaining: 3, resetMs: null },
    ]);
  });

  it("cuts an absurd t as Retry-After is cut: one header must not stop polling for years", () => {
    expect(readRateHeaders(headers({ ratelimit: '"order-list";r=0;t=999999999' })).remaining).toEqual([
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
    expect(readRateHeaders(headers({ ratelimit: field })).remaining).toEqual([]);
  });

  it.each([
    ["no q", '"sustained";w=10'],
    ["no w", '"sustained";q=10'],
    ["an empty window", '"sustained";q=10;w=0'],
  ])("ignores a RateLimit-Policy with %s", (_, field) => {
    expect(readRateHeaders(headers({ "ratelimit-policy": field })).declared).toEqual([]);
  });

  it("reads the good entries next to a bad one", () => {
    expect(readRateHeaders(headers({ ratelimit: '"sustained", "order-list";r=2;t=1' })).remaining).toEqual([
      { policy: "order-list", remaining: 2, resetMs: 1_000 },
    ]);
  });
});
