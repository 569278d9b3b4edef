import fc from "fast-check";
import { expect, it } from "vitest";
import {
  compareKeys,
  observeEvent,
  observeRead,
  type Observation,
  type OrderKey,
} from "../../../src/domain/order/observation.ts";
import { decide } from "../../support/mirror/decide.ts";
import { NANOS_PER_SECOND } from "../../../src/domain/order/instant.ts";
import type { Snapshot } from "../../../src/domain/order/order.ts";
import { makeSnapshot, readAt } from "../../support/mirror/orders.ts";

/**
 * One order that its provider changes, sometimes to an earlier updatedAt, discarding the states between; reads that lag by
 * less than the margin; events that are late, lost, repeated or false. In seconds since the start.
 */
const MARGIN = 100;
const END = 1_000;

const second = (most: number) => fc.integer({ min: 0, max: most });
const world = fc.record({
  /** When the provider changed the order, and the error of its timestamp. */
  changes: fc.array(
    fc.record({ at: second(END), skew: fc.integer({ min: -40, max: 0 }), announced: fc.boolean() }),
    {
      minLength: 1,
      maxLength: 6,
    },
  ),
  reads: fc.array(fc.record({ at: second(END), lag: second(MARGIN - 41) }), { maxLength: 8 }),
  lies: fc.array(fc.record({ at: second(END), version: second(END) }), { maxLength: 4 }),
});

type World = typeof world extends fc.Arbitrary<infer One> ? One : never;

const snapshotAt = (version: number, note: string): Snapshot => ({
  ...makeSnapshot({ reference: "R", updatedAt: "2026-03-01T00:00:00Z", more: { note } }),
  version: BigInt(version) * NANOS_PER_SECOND,
});
const nanos = (seconds: number) => BigInt(seconds) * NANOS_PER_SECOND;

/** What the provider shows at an instant: its last change, whatever the timestamp. */
function shownAt({ changes }: World, at: number): Snapshot | undefined {
  const last = changes
    .filter((change) => change.at <= at)
    .toSorted((a, b) => a.at - b.at)
    .at(-1);
  return last && snapshotAt(Math.max(0, last.at + last.skew), `change at ${last.at}`);
}

function read(shown: Snapshot, at: number): Observation {
  const time = readAt(nanos(at), MARGIN);
  return observeRead({ sourceId: "live", via: "poll", snapshot: shown, time });
}

function observe(of: World): Observation[] {
  const reads = of.reads.flatMap(({ at, lag }) => {
    const shown = shownAt(of, at - lag);
    return shown === undefined ? [] : [read(shown, at)];
  });
  const events = of.changes.flatMap((change) => {
    const snapshot = shownAt({ ...of, changes: [change] }, change.at);
    if (!change.announced || snapshot === undefined) return [];
    return [observeEvent({ sourceId: "live", snapshot, created: nanos(change.at) })];
  });
  const lies = of.lies.map(({ at, version }) =>
    observeEvent({ sourceId: "live", snapshot: snapshotAt(version, `lie at ${at}`), created: nanos(at) }),
  );
  return [...reads, ...events, ...lies];
}

const settleState = (observations: readonly Observation[]) =>
  observations.reduce<OrderKey | undefined>(
    (stored, { key }) => (decide(stored, key, nanos(10 * END)) === "none" ? stored : key),
    undefined,
  );

/** The rule by its definition, over the whole set: without a total order or state between observations. */
function stateByDefinition(observations: readonly Observation[]): OrderKey | undefined {
  const horizonOf = ({ via, key }: Observation) =>
    via === "webhook" ? null : key.observedAt - nanos(MARGIN);
  const greatest = observations
    .map(horizonOf)
    .reduce((most, one) => (most === null || (one !== null && one > most) ? one : most), null);
  return observations
    .filter((one) => greatest === null || horizonOf(one) === greatest || reach(one.key) > greatest)
    .map(({ key }) => key)
    .toSorted(compareClaims)
    .at(-1);
}

/** Nobody can know what will be: a claim dated more than a minute ahead of its observation reaches only to that. */
const reach = ({ version, observedAt }: OrderKey) =>
  version > observedAt + nanos(60) ? observedAt : version;

function compareClaims(left: OrderKey, right: OrderKey): number {
  const withoutHorizon = (key: OrderKey) => ({ ...key, horizon: null });
  return compareKeys(withoutHorizon(left), withoutHorizon(right));
}

const state = (key: OrderKey | undefined) => [key?.version, key?.hash];

it("the state equals the rule over the whole set, in any sequence and with repetitions", () => {
  fc.assert(
    fc.property(world, fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })), (of, random) => {
      const observations = observe(of);
      const shuffled = [...observations, ...observations]
        .map((observation) => ({ observation, place: random.next().value! }))
        .toSorted((a, b) => a.place - b.place)
        .map(({ observation }) => observation);
      expect(state(settleState(shuffled))).toEqual(state(settleState(observations)));
      expect(state(settleState(observations))).toEqual(state(stateByDefinition(observations)));
    }),
    { numRuns: 500 },
  );
});

it("a read beyond the margin of every observation produces the state that the provider shows", () => {
  fc.assert(
    fc.property(world, (of) => {
      const last = shownAt(of, END);
      fc.pre(last !== undefined);
      const ended = settleState([...observe(of), read(last!, END + MARGIN)]);
      expect(state(ended)).toEqual(state(read(last!, END + MARGIN).key));
    }),
    { numRuns: 500 },
  );
});

it("nothing within the margin is ever refuted, so a true event survives a lagging read", () => {
  fc.assert(
    fc.property(second(END), second(MARGIN - 1), second(END), (changedAt, age, before) => {
      const truth = observeEvent({
        sourceId: "live",
        snapshot: snapshotAt(changedAt, "new"),
        created: nanos(changedAt),
      });
      const behind = read(snapshotAt(Math.min(before, changedAt - 1), "old"), changedAt + age);
      expect(state(settleState([truth, behind]))).toEqual(state(truth.key));
      expect(state(settleState([behind, truth]))).toEqual(state(truth.key));
    }),
  );
});
