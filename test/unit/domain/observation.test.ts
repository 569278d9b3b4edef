import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  fold,
  compareKeys,
  observeEvent,
  observeRead,
  type Observation,
  type OrderKey,
} from "../../../src/domain/order/observation.ts";
import { lifeCycleRank } from "../../../src/domain/order/order.ts";
import { at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import { NANOS_PER_SECOND, parseInstant } from "../../../src/domain/order/instant.ts";

const hash = fc.constantFrom("00".repeat(32), "7f".repeat(32), "80".repeat(32), "ff".repeat(32));
/** More than a minute apart, so that some claims are dated ahead of their own observation. */
const instant = fc.bigInt({ min: 0n, max: 3n }).map((minutes) => minutes * 61n * NANOS_PER_SECOND);
const key: fc.Arbitrary<OrderKey> = fc
  .record({
    ahead: fc.option(instant),
    gone: fc.boolean(),
    version: instant,
    settled: fc.boolean(),
    observedAt: instant,
    rank: fc.integer({ min: 1, max: 6 }),
    hash,
  })
  .map(({ ahead, gone, ...rest }) => ({
    horizon: ahead === null ? null : rest.version + ahead,
    // Only a read can find that an order is gone, and a horizon at the version has settled it.
    gone: gone && ahead !== null,
    ...rest,
    settled: rest.settled || ahead !== null,
  }));
const low: OrderKey = {
  horizon: null,
  gone: false,
  version: 1n,
  settled: false,
  observedAt: 1n,
  rank: 1,
  hash: "00",
};

describe("compareKeys", () => {
  it("is a total order", () => {
    fc.assert(
      fc.property(key, key, key, (a, b, c) => {
        expect(Math.sign(compareKeys(a, b))).toBe(-Math.sign(compareKeys(b, a)) + 0);
        const chained = compareKeys(a, b) <= 0 && compareKeys(b, c) <= 0;
        expect(!chained || compareKeys(a, c) <= 0).toBe(true);
        expect(compareKeys(a, b) === 0).toBe(text(a) === text(b));
      }),
    );
  });

  it("compares claims by version, settled, observedAt, rank and hash, in this sequence", () => {
    const steps: Partial<OrderKey>[] = [
      { hash: "01" },
      { rank: 2 },
      { observedAt: 2n },
      { settled: true },
      { version: 2n },
    ];
    steps.forEach((step, index) => {
      expect(compareKeys({ ...low, ...step }, low)).toBeGreaterThan(0);
      const lesser = Object.assign({}, ...steps.slice(0, index)) as Partial<OrderKey>;
      expect(compareKeys({ ...low, ...step }, { ...low, ...lesser })).toBeGreaterThan(0);
    });
  });
});

describe("an observation", () => {
  const snapshot = makeSnapshot({ reference: "R1", updatedAt: at(0) });
  it.each([
    [899.999999999, null, false],
    [900, at(0), false],
    [900.000000001, at(0.000000001), true],
    [1_000, at(100), true],
  ])(
    "by a read %s s after its version, with a margin of 900 s, has the horizon %s",
    (seconds, horizon, settled) => {
      const time = readAt(parseInstant(at(seconds)), 900);
      const { key } = observeRead({ sourceId: "live", via: "poll", snapshot, time });
      expect(key).toMatchObject({ horizon: horizon === null ? null : parseInstant(horizon), settled });
    },
  );
  it.each([
    [3_600, 3_600],
    [-3_600, 0],
  ])("by an event is a claim, never settled, and not before its version", (created, observed) => {
    const { key } = observeEvent({ sourceId: "live", snapshot, created: parseInstant(at(created)) });
    expect(key).toMatchObject({ horizon: null, settled: false, observedAt: parseInstant(at(observed)) });
  });
});

/** In the sequence of the life cycle (spec, "States and transitions"). */
const ORDER_STATUSES = ["created", "arrived_for_pickup", "picked_up", "arrived_for_delivery", "cancelled"];

it("life-cycle ranks rise through the spec's statuses, with unknown ones between the open ones and the final one", () => {
  const ranks = ORDER_STATUSES.map(lifeCycleRank);
  expect(ranks).toEqual([...ranks].sort((left, right) => left - right));
  expect(new Set(ranks).size).toBe(ranks.length);
  expect(lifeCycleRank("delivered")).toBeGreaterThan(lifeCycleRank("arrived_for_delivery"));
  expect(lifeCycleRank("delivered")).toBeLessThan(lifeCycleRank("cancelled"));
  expect(lifeCycleRank("constructor")).toBe(lifeCycleRank("delivered"));
});

describe("fold", () => {
  const snapshots = ["B", "A", "a", "Z"].map((reference) => makeSnapshot({ reference, updatedAt: at(0) }));
  const observation: fc.Arbitrary<Observation> = fc.record({
    sourceId: fc.constantFrom("live", "test"),
    via: fc.constant("poll" as const),
    snapshot: fc.constantFrom(...snapshots),
    key,
  });

  it("keeps the greatest of each order, once, in a fixed sequence", () => {
    fc.assert(
      fc.property(fc.array(observation, { maxLength: 30 }), (observations) => {
        const folded = fold(observations);
        const identities = folded.map((one) => JSON.stringify([one.sourceId, one.snapshot.fields.reference]));
        expect(new Set(identities).size).toBe(folded.length);
        expect(identities).toEqual([...identities].sort());
        for (const one of observations) {
          const kept = folded.find(
            (other) =>
              other.sourceId === one.sourceId &&
              other.snapshot.fields.reference === one.snapshot.fields.reference,
          );
          expect(compareKeys(kept!.key, one.key)).toBeGreaterThanOrEqual(0);
        }
      }),
    );
  });
});

function text(one: OrderKey): string {
  const { horizon, gone, version, settled, observedAt, rank, hash: content } = one;
  return [horizon, gone, version, settled, observedAt, rank, content].map(String).join(" ");
}
