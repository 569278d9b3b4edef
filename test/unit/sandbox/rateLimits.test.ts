import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  makeRateLimiter,
  POLICY_QUOTAS,
  WINDOW_SECONDS,
  type WindowKind,
} from "../../../src/sandbox/api/rateLimits.ts";

const WINDOW_MS = WINDOW_SECONDS * 1_000;

function makeAt(kind: WindowKind, enforced = true) {
  let nowMs = 1_000_000;
  const limiter = makeRateLimiter({ nowMs: () => nowMs, enforced, kind });
  return {
    wait: (ms: number) => {
      nowMs += ms;
    },
    take: (account = "sandbox live") => limiter.take(account, ["sustained", "order-list"]),
    limiter,
  };
}

describe.each(["fixed", "sliding"] as const)("%s windows", (kind) => {
  it("allow a request after exactly Retry-After, and refuse one a millisecond early, however many came before", () => {
    for (const [early, before] of [0, 1].flatMap((ms) => [20, 70].map((count) => [ms, count] as const))) {
      const { take, wait } = makeAt(kind);
      for (let count = 0; count < before; count += 1) take();
      const { refusal } = take();
      expect(refusal).toEqual({ policy: "order-list", retryAfterSeconds: 10 });
      wait(10_000 - early);
      expect([before, take().refusal === undefined]).toEqual([before, early === 0]);
    }
  });

  it("are whole again for a client that waits longer than it was told, after requests that came early", () => {
    const { take, wait } = makeAt(kind);
    for (let count = 0; count < 25; count += 1) take();
    wait(2 * WINDOW_MS);
    for (let count = 0; count < 20; count += 1) expect(take().refusal).toBeUndefined();
    expect(take().refusal).toBeDefined();
  });

  it("always return a correct Retry-After, and show and allow no more than the quota, however a client behaves", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(15_000), { minLength: 30, maxLength: 120 }), (waits) => {
        const { take, wait } = makeAt(kind);
        const refusedAgain: boolean[] = [];
        const passed: number[] = [];
        let nowMs = 0;
        const pass = (ms: number) => {
          wait(ms);
          nowMs += ms;
        };
        for (const ms of waits) {
          // Bursts with pauses between them.
          pass(ms % 7 === 0 ? ms : ms % 50);
          const { refusal, headers } = take();
          if (!refusal) passed.push(nowMs);
          const [, remaining, resetSeconds] = /"order-list";r=(\d+);t=(\d+)$/.exec(headers.RateLimit)!;
          expect(Number(remaining)).toBeLessThan(POLICY_QUOTAS["order-list"]);
          expect(Number(resetSeconds)).toBeGreaterThanOrEqual(1);
          expect(Number(resetSeconds)).toBeLessThanOrEqual(WINDOW_SECONDS);
          if (!refusal || ms % 3 > 0) continue;
          pass(refusal.retryAfterSeconds * 1_000);
          refusedAgain.push(take().refusal !== undefined);
          passed.push(nowMs);
        }
        const most = kind === "sliding" ? POLICY_QUOTAS["order-list"] : 2 * POLICY_QUOTAS["order-list"];
        for (const at of passed)
          expect(passed.filter((each) => at <= each && each < at + WINDOW_MS).length).toBeLessThanOrEqual(
            most,
          );
        expect(refusedAgain).not.toContain(true);
      }),
    );
  });
});

it("names the policy with the longest wait", () => {
  const { limiter } = makeAt("fixed");
  for (let count = 0; count < 200; count += 1) limiter.take("a", ["sustained"]);
  expect(limiter.take("a", ["sustained", "order-list"]).refusal?.policy).toBe("sustained");
  expect(limiter.take("a", ["sustained", "order-list"]).headers["RateLimit-Policy"]).toBe(
    '"sustained";q=200;w=10, "order-list";q=20;w=10',
  );
});
