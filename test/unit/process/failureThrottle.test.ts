import { describe, expect, it } from "vitest";
import { makeFailureThrottle } from "../../../src/process/failureThrottle.ts";

function makeThrottle() {
  let nowMs = 1_000;
  const clock = { now: () => 0n, monotonicMs: () => nowMs, sleep: () => Promise.resolve() };
  const throttle = makeFailureThrottle(clock);
  const fail = (address: string, times: number) => {
    for (let time = 0; time < times; time += 1) throttle.recordFailure(address);
  };
  return { ...throttle, fail, passMs: (ms: number) => (nowMs += ms) };
}

describe("the throttle of wrong passwords", () => {
  it("lets an address fail ten times, then blocks it for a minute", () => {
    const throttle = makeThrottle();
    throttle.fail("10.0.0.1", 9);
    expect(throttle.waitSeconds("10.0.0.1")).toBe(0);
    throttle.passMs(1_000);
    throttle.fail("10.0.0.1", 1);
    expect(throttle.waitSeconds("10.0.0.1")).toBe(59);
    expect(throttle.waitSeconds("10.0.0.2")).toBe(0);
    throttle.passMs(58_999);
    expect(throttle.waitSeconds("10.0.0.1")).toBe(1);
    throttle.passMs(1);
    expect(throttle.waitSeconds("10.0.0.1")).toBe(0);
  });

  it("blocks every address once all together have failed a hundred times within a minute", () => {
    const throttle = makeThrottle();
    for (let n = 0; n < 99; n += 1) throttle.fail(`10.0.1.${n}`, 1);
    expect(throttle.waitSeconds("10.0.0.1")).toBe(0);
    throttle.passMs(1_000);
    throttle.fail("10.0.1.99", 1);
    expect(throttle.waitSeconds("10.0.0.1")).toBe(59);
    throttle.passMs(59_000);
    expect(throttle.waitSeconds("10.0.0.1")).toBe(0);
  });

  it("treats the addresses of one IPv6 network as one", () => {
    const throttle = makeThrottle();
    throttle.fail("2001:db8:1:2::1", 5);
    throttle.fail("2001:db8:1:2:ffff:1:2:3", 5);
    expect(throttle.waitSeconds("2001:db8:1:2::9")).toBeGreaterThan(0);
    expect(throttle.waitSeconds("2001:db8:1:3::1")).toBe(0);
    expect(throttle.waitSeconds("::1")).toBe(0);
    throttle.fail("2001:db8::1:a:b:c:d", 10);
    expect(throttle.waitSeconds("2001:db8:0:1:f::")).toBeGreaterThan(0);
    expect(throttle.waitSeconds("2001:db8::2:a:b:c:d")).toBe(0);
  });

  it("takes an IPv4 address for the same one, also where the listener names it as IPv6", () => {
    const throttle = makeThrottle();
    throttle.fail("::ffff:10.0.0.1", 10);
    expect(throttle.waitSeconds("10.0.0.1")).toBeGreaterThan(0);
    expect(throttle.waitSeconds("::ffff:10.0.0.2")).toBe(0);
  });
});
