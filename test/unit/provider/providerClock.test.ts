import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  millisFromInstant,
  NANOS_PER_SECOND,
  parseInstant,
  type Instant,
} from "../../../src/domain/order/instant.ts";
import { makeProviderClock, type ProviderClock } from "../../../src/provider/providerClock.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

const NOON = parseInstant("2026-11-20T12:00:00Z");

/** The Date header of a server whose clock shows `instant`. */
const dateHeader = (instant: Instant) => new Date(millisFromInstant(instant)).toUTCString();

const millis = (ms: number) => BigInt(Math.round(ms * 1e6));

describe("without a Date header", () => {
  it("claims the local time less thirty seconds", () => {
    const providerClock = makeProviderClock(makeSimulatedClock(NOON));
    expect(providerClock.providerNow()).toBe(NOON - 30n * NANOS_PER_SECOND);
    expect(providerClock.isSynchronized()).toBe(false);
  });
});

describe("with Date headers", () => {
  it("is one second behind the header, and advances with the monotonic clock", async () => {
    const clock = makeSimulatedClock(NOON);
    const providerClock = makeProviderClock(clock);
    providerClock.observe({ date: dateHeader(NOON), receivedAtMs: 0 });
    expect(providerClock.providerNow()).toBe(NOON - NANOS_PER_SECOND);
    await clock.runUntil(2_500);
    expect(providerClock.providerNow()).toBe(NOON + millis(1_500));
    expect(providerClock.instantAt(500)).toBe(NOON - millis(500));
  });

  it("follows the slowest of several machines, and forgets it after two minutes", async () => {
    const clock = makeSimulatedClock(NOON);
    const providerClock = makeProviderClock(clock);
    const slow = NOON - 8n * NANOS_PER_SECOND;
    providerClock.observe({ date: dateHeader(slow), receivedAtMs: 0 });
    const observe = (ms: number) =>
      providerClock.observe({ date: dateHeader(NOON + millis(ms)), receivedAtMs: ms });
    await clock.runUntil(119_000);
    observe(119_000);
    expect(providerClock.providerNow()).toBe(slow + millis(118_000));
    await clock.runUntil(120_000);
    observe(120_000);
    expect(providerClock.providerNow()).toBe(NOON + millis(119_000));
  });

  it("keeps at most sixteen answers", () => {
    const providerClock = makeProviderClock(makeSimulatedClock(NOON));
    const observe = (at: Instant) => providerClock.observe({ date: dateHeader(at), receivedAtMs: 0 });
    observe(NOON - 8n * NANOS_PER_SECOND);
    for (let count = 0; count < 15; count += 1) observe(NOON);
    expect(providerClock.providerNow()).toBe(NOON - 9n * NANOS_PER_SECOND);
    observe(NOON);
    expect(providerClock.providerNow()).toBe(NOON - NANOS_PER_SECOND);
  });
});

describe("compared with our database's clock", () => {
  const HOUR = 3_600n * NANOS_PER_SECOND;
  const answer = (providerClock: ProviderClock, provider: Instant) =>
    providerClock.observe({ date: dateHeader(provider), receivedAtMs: 0 });
  it.each([
    ["ahead", HOUR, 0n, 3_599],
    ["behind", -HOUR, -HOUR - NANOS_PER_SECOND, -3_601],
    ["a minute ahead", 60n * NANOS_PER_SECOND, 59n * NANOS_PER_SECOND, null],
  ])("is the earlier of the two when it is %s by more than a minute", (_, error, bound, disagreement) => {
    const providerClock = makeProviderClock(makeSimulatedClock(NOON));
    answer(providerClock, NOON + error);
    expect(providerClock.disagreementSeconds()).toBeNull();
    providerClock.compareWith(NOON, 0);
    expect(providerClock.providerNow() - NOON).toBe(bound);
    expect(providerClock.disagreementSeconds()).toBe(disagreement);
  });
  it.each([HOUR, -HOUR])("is right again with the first right answer after an error of %d ns", (error) => {
    const providerClock = makeProviderClock(makeSimulatedClock(NOON));
    providerClock.compareWith(NOON, 0);
    answer(providerClock, NOON + error);
    answer(providerClock, NOON);
    expect(providerClock.disagreementSeconds()).toBeNull();
    expect(providerClock.providerNow()).toBe(NOON - NANOS_PER_SECOND);
  });
  it("is replaced by it without a Date header", () => {
    const providerClock = makeProviderClock(makeSimulatedClock(NOON));
    providerClock.compareWith(NOON + HOUR, 0);
    expect(providerClock.providerNow()).toBe(NOON + HOUR - 30n * NANOS_PER_SECOND);
  });
});

it("is never later than the provider's clock, whatever the latency and the skew", async () => {
  const exchange = fc.record({
    pauseMs: fc.integer({ min: 0, max: 60_000 }),
    toProviderMs: fc.double({ min: 0, max: 5_000, noNaN: true }),
    backMs: fc.double({ min: 0, max: 5_000, noNaN: true }),
    /** How far the answering machine's clock is behind the fastest. */
    behindMs: fc.constantFrom(0, 0, 0, 1_700, 4_000),
    hasDate: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(exchange, { minLength: 1, maxLength: 20, size: "max" }),
      fc.integer({ min: -3_600_000, max: 3_600_000 }),
      async (exchanges, skewMs) => {
        const clock = makeSimulatedClock(NOON);
        const providerClock = makeProviderClock(clock);
        const trueTime = (ms: number) => NOON + millis(skewMs) + millis(ms);
        let slowestMs = 0;
        for (const { pauseMs, toProviderMs, backMs, behindMs, hasDate } of exchanges) {
          const startedAtMs = clock.monotonicMs() + pauseMs;
          const answeredAtMs = startedAtMs + toProviderMs;
          const receivedAtMs = answeredAtMs + backMs;
          await clock.runUntil(receivedAtMs);
          const date = hasDate ? dateHeader(trueTime(answeredAtMs) - millis(behindMs)) : null;
          providerClock.observe({ date, receivedAtMs });
          if (!providerClock.isSynchronized()) continue;
          slowestMs = Math.max(slowestMs, hasDate ? behindMs : 0);
          // A machine stamps orders with its own time.
          const own = (ms: number) => trueTime(ms) - millis(hasDate ? behindMs : 0);
          expect(providerClock.instantAt(startedAtMs)).toBeLessThanOrEqual(own(startedAtMs));
          expect(providerClock.providerNow()).toBeLessThanOrEqual(own(receivedAtMs));
          // Nor too early: the resolution, the truncated second, the way back, the slowest machine.
          const latenessMs = 2_000 + 10_000 + slowestMs + 1;
          expect(providerClock.providerNow()).toBeGreaterThan(trueTime(receivedAtMs - latenessMs));
        }
      },
    ),
    { numRuns: 60 },
  );
});
