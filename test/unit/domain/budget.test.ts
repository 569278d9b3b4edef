import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  blockUntil,
  claimRemaining,
  countUsed,
  declareRule,
  endRequest,
  nextAllowedAt,
  startRequest,
  unusedPolicy,
  takeShare,
} from "../../../src/domain/window/budget.ts";
import type { PolicyUsage, RateRule } from "../../../src/domain/window/budget.ts";

const RULE: RateRule = { requestsMax: 4, windowMs: 1_000 };

/** Starts and ends requests of the given spans in sequence. */
function used(spans: readonly (readonly [start: number, end: number | null])[], rule = RULE): PolicyUsage {
  return spans.reduce((usage, [start, end], index) => {
    const started = startRequest(usage, index + 1, start);
    return end === null ? started : endRequest(started, index + 1, end);
  }, unusedPolicy(rule));
}

describe("headroom", () => {
  it.each([
    [20, 18],
    [200, 180],
    [100, 90],
    [1, 1],
    [0, 1],
  ])("uses by default of a limit of %i only %i", (limit, expected) => {
    expect(takeShare({ requestsMax: limit, windowMs: 10_000 })).toEqual({
      requestsMax: expected,
      windowMs: 10_000,
    });
  });
  it.each([
    [0.5, 10],
    [0.01, 1],
    [1, 20],
  ])("uses the share %d of a limit of 20, and of the one that the provider declares", (share, expected) => {
    const rule = takeShare({ requestsMax: 20, windowMs: 10_000 }, share);
    expect(rule.requestsMax).toBe(expected);
    const declared = declareRule(unusedPolicy(rule, share), { requestsMax: 20, windowMs: 10_000 });
    expect(declared.declared).toEqual(rule);
  });
});

describe("pace and window", () => {
  it("lets the first request start immediately", () => {
    expect(nextAllowedAt(unusedPolicy(RULE), 77)).toBe(77);
  });

  it("spaces starts evenly over the window", () => {
    const usage = used([[0, 10]]);
    expect(nextAllowedAt(usage, 100)).toBe(250);
    expect(nextAllowedAt(usage, 250)).toBe(250);
    expect(nextAllowedAt(usage, 251)).toBe(251);
  });

  it("counts a request until a full window after its end, not after its start", () => {
    const usage = used([
      [0, 240],
      [250, 300],
      [500, 550],
      [750, 760],
    ]);
    expect(countUsed(usage, 1_239)).toBe(4);
    expect(nextAllowedAt(usage, 1_000)).toBe(1_240);
    expect(countUsed(usage, 1_240)).toBe(3);
  });

  it("waits for an end when only open requests can make room", () => {
    const usage = used([
      [0, null],
      [250, null],
      [500, null],
      [750, null],
    ]);
    expect(nextAllowedAt(usage, 5_000)).toBe(Number.POSITIVE_INFINITY);
    expect(nextAllowedAt(endRequest(usage, 2, 5_000), 5_000)).toBe(6_000);
  });

  it("ignores a second end of the same request", () => {
    const usage = endRequest(used([[0, 10]]), 1, 900);
    expect(countUsed(usage, 1_009)).toBe(1);
    expect(countUsed(usage, 1_010)).toBe(0);
  });
});

describe("the provider's headers", () => {
  const usage = used([[0, 10]]);

  it("waits for the reset when nothing remains", () => {
    const claimed = claimRemaining(usage, { requestId: 1, remaining: 0, resetsAtMs: 7_000 });
    expect(nextAllowedAt(claimed, 300)).toBe(7_000);
    expect(nextAllowedAt(claimed, 7_001)).toBe(7_001);
  });

  it("sends no more than the remaining requests before the reset", () => {
    const claimed = claimRemaining(usage, { requestId: 1, remaining: 1, resetsAtMs: 7_000 });
    expect(nextAllowedAt(claimed, 300)).toBe(300);
    expect(nextAllowedAt(endRequest(startRequest(claimed, 2, 300), 2, 310), 600)).toBe(7_000);
  });

  it("subtracts requests that were open when the provider counted", () => {
    const both = startRequest(usage, 2, 250);
    const claimed = claimRemaining(both, { requestId: 1, remaining: 1, resetsAtMs: 7_000 });
    expect(nextAllowedAt(claimed, 600)).toBe(7_000);
  });

  it("ignores an answer that arrives after that of a later request", () => {
    const both = startRequest(usage, 2, 250);
    const later = claimRemaining(both, { requestId: 2, remaining: 0, resetsAtMs: 7_000 });
    expect(claimRemaining(later, { requestId: 1, remaining: 9, resetsAtMs: 7_000 })).toBe(later);
  });

  it("never exceeds our own rate, whatever the headers allow", () => {
    const generous = declareRule(
      claimRemaining(usage, { requestId: 1, remaining: 1_000, resetsAtMs: 7_000 }),
      { requestsMax: 1_000, windowMs: 1_000 },
    );
    expect(nextAllowedAt(generous, 100)).toBe(250);
  });

  it("obeys a stricter declared limit, with headroom, until it is withdrawn", () => {
    const strict = declareRule(usage, { requestsMax: 2, windowMs: 2_000 });
    expect(nextAllowedAt(strict, 300)).toBe(2_010);
    expect(nextAllowedAt(declareRule(strict, { requestsMax: 20, windowMs: 1_000 }), 300)).toBe(300);
  });

  it("does not track a declared window of more than an hour", () => {
    expect(declareRule(usage, { requestsMax: 1, windowMs: 3_600_000 }).declared).not.toBeNull();
    expect(declareRule(usage, { requestsMax: 1, windowMs: 3_600_001 }).declared).toBeNull();
  });

  it("sends nothing before the end of a refusal, even after a shorter one", () => {
    const blocked = blockUntil(blockUntil(usage, 9_000), 5_000);
    expect(nextAllowedAt(blocked, 300)).toBe(9_000);
    expect(nextAllowedAt(blocked, 9_000)).toBe(9_000);
  });
});

describe("any sequence of requests", () => {
  const arbitraryRule = fc.record({
    requestsMax: fc.integer({ min: 1, max: 20 }),
    windowMs: fc.integer({ min: 100, max: 10_000 }),
  });
  const arbitraryRequests = fc.array(
    fc.record({
      pauseMs: fc.integer({ min: 0, max: 2_000 }),
      latencyMs: fc.integer({ min: 0, max: 15_000 }),
      /** The point between start and end at which the provider counts it. */
      counted: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
    { maxLength: 120, size: "max" },
  );

  it("keeps every sliding window of the provider within the limit, and starts evenly", () => {
    fc.assert(
      fc.property(arbitraryRule, arbitraryRequests, (rule, requests) => {
        const { starts, counts } = simulate(rule, requests);
        const spacings = starts.slice(1).map((start, index) => start - starts[index]!);
        expect(Math.min(...spacings, Infinity)).toBeGreaterThanOrEqual(
          rule.windowMs / rule.requestsMax - 1e-6,
        );
        expect(busiestWindow(counts, rule.windowMs)).toBeLessThanOrEqual(rule.requestsMax);
      }),
    );
  });
});

/** Sends each request as early as allowed. Returns when each started and when the provider counted it. */
function simulate(
  rule: RateRule,
  requests: readonly { pauseMs: number; latencyMs: number; counted: number }[],
): { starts: number[]; counts: number[] } {
  let usage = unusedPolicy(rule);
  let nowMs = 0;
  let underWay: { id: number; endsAtMs: number }[] = [];
  const starts: number[] = [];
  const counts: number[] = [];
  const endDue = () => {
    for (const { id, endsAtMs } of underWay) if (endsAtMs <= nowMs) usage = endRequest(usage, id, endsAtMs);
    underWay = underWay.filter(({ endsAtMs }) => endsAtMs > nowMs);
  };
  requests.forEach(({ pauseMs, latencyMs, counted }, index) => {
    nowMs += pauseMs;
    for (;;) {
      endDue();
      const atMs = nextAllowedAt(usage, nowMs);
      if (atMs <= nowMs) break;
      nowMs = Math.min(atMs, ...underWay.map(({ endsAtMs }) => endsAtMs));
    }
    usage = startRequest(usage, index, nowMs);
    underWay.push({ id: index, endsAtMs: nowMs + latencyMs });
    starts.push(nowMs);
    counts.push(nowMs + latencyMs * counted);
  });
  return { starts, counts };
}

function busiestWindow(instants: readonly number[], windowMs: number): number {
  return Math.max(
    0,
    ...instants.map((from) => instants.filter((at) => at >= from && at < from + windowMs).length),
  );
}
