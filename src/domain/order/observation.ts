import { addSeconds, type Instant } from "./instant.ts";
import { lifeCycleRank, type Snapshot } from "./order.ts";

export const VIAS = ["webhook", "poll", "backfill", "refetch", "verify", "write"] as const;
export type Via = (typeof VIAS)[number];

/**
 * The place of an observation in the total order, compared by `compareKeys`.
 *
 * A read of ours shows every change up to its _horizon_: the provider-clock instant of its request minus a margin. Up
 * to there it is certain. An event, or a version beyond a read's own horizon, is a _claim_: authentic, but perhaps
 * early, late, out of order or false.
 */
export interface OrderKey {
  /** For a read whose horizon has reached the version: that horizon, never below `version`. Null for a claim. */
  readonly horizon: Instant | null;
  /** True if the provider says that the order does not exist; the other fields describe its last state. */
  readonly gone: boolean;
  /** The provider's `updatedAt`. */
  readonly version: Instant;
  /** True for a read that started later than `version` plus the margin, by the provider's clock. */
  readonly settled: boolean;
  /** Provider-clock instant at which the read's request started, or the event was created; never our own time. */
  readonly observedAt: Instant;
  readonly rank: number;
  /** Hex. It only makes the order total. */
  readonly hash: string;
}

/** A snapshot with its origin and its place in the order of all observations of the same order. */
export interface Observation {
  readonly sourceId: string;
  readonly via: Via;
  readonly snapshot: Snapshot;
  readonly key: OrderKey;
}

/** Clocks that differ by less are trusted: the provider's and our database's. */
export const CLOCK_TRUST_SECONDS = 60;

/**
 * The reach of an observation: a read's goes up to its horizon, a claim's up to its own version. A claim that is dated
 * ahead of its own observation reaches only to that: nobody can know what will be.
 */
function reachOf({ horizon, version, observedAt }: OrderKey): Instant {
  if (horizon !== null) return horizon;
  return version > addSeconds(observedAt, CLOCK_TRUST_SECONDS) ? observedAt : version;
}

/**
 * Negative if `left` comes before `right`, positive if after, 0 if they are equal.
 *
 * Reach comes first: a read beats every claim up to its horizon, whatever version the claim has, and is beaten by a
 * claim beyond it. At equal reach the read wins. Among claims reach is the version, so the newest one wins. @internal
 */
export function compareKeys(left: OrderKey, right: OrderKey): number {
  return (
    compare(reachOf(left), reachOf(right)) ||
    compare(Number(left.horizon !== null), Number(right.horizon !== null)) ||
    compare(Number(!left.gone), Number(!right.gone)) ||
    compare(left.version, right.version) ||
    compare(Number(left.settled), Number(right.settled)) ||
    compare(left.observedAt, right.observedAt) ||
    compare(left.rank, right.rank) ||
    // Hex of equal length sorts like the bytes, and so as Postgres compares bytea.
    compare(left.hash, right.hash)
  );
}

/** An event's snapshot shows the order at event time (spec, "Events"), so it is a claim and never settled. */
export function observeEvent(options: {
  sourceId: string;
  snapshot: Snapshot;
  created: Instant;
}): Observation {
  const { sourceId, snapshot, created } = options;
  // Not before the version, whatever the provider means by `created`: only reads show that they are dated ahead.
  const observedAt = created > snapshot.version ? created : snapshot.version;
  const key = makeKey(snapshot, { horizon: null, settled: false, observedAt });
  return { sourceId, via: "webhook", snapshot, key };
}

/** The instant of a read, and what it can know. */
export interface ReadTime {
  /** Provider-clock instant at which the request started, a lower bound. */
  readonly requestedAt: Instant;
  /** Longest delay until a change is visible to a read: the horizon is this far before the request. */
  readonly marginSeconds: number;
}

/** The instant up to which a read shows every change. */
export function horizonOf({ requestedAt, marginSeconds }: ReadTime): Instant {
  return addSeconds(requestedAt, -marginSeconds);
}

/** A snapshot from the answer to one of our requests. */
export function observeRead(options: {
  sourceId: string;
  via: Exclude<Via, "webhook">;
  snapshot: Snapshot;
  time: ReadTime;
}): Observation {
  const { sourceId, via, snapshot, time } = options;
  const { requestedAt } = time;
  const horizon = horizonOf(time);
  const settled = horizon > snapshot.version;
  const reached = horizon >= snapshot.version ? horizon : null;
  return {
    sourceId,
    via,
    snapshot,
    key: makeKey(snapshot, { horizon: reached, settled, observedAt: requestedAt }),
  };
}

function makeKey(
  snapshot: Snapshot,
  seen: { horizon: Instant | null; settled: boolean; observedAt: Instant },
): OrderKey {
  const { version, hash, fields } = snapshot;
  // One literal without spread parts: this runs for every event.
  return {
    horizon: seen.horizon,
    gone: false,
    version,
    settled: seen.settled,
    observedAt: seen.observedAt,
    rank: lifeCycleRank(fields.status),
    hash,
  };
}

function compare<Value extends bigint | number | string>(left: Value, right: Value): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

/**
 * The greatest observation of each order, sorted by source and reference. It represents all of them: whatever refutes
 * it refutes every claim that it beats.
 *
 * Two rows of one order in a batch would break `INSERT … ON CONFLICT`, and batches that lock rows in different
 * sequences deadlock; the sort is by code unit, the same in every process.
 */
export function fold<Seen extends Observation>(observations: readonly Seen[]): Seen[] {
  const greatest = new Map<string, Seen>();
  for (const observation of observations) {
    const order = orderIdentity(observation);
    const known = greatest.get(order);
    if (known === undefined || compareKeys(observation.key, known.key) > 0) greatest.set(order, observation);
  }
  return [...greatest]
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([, observation]) => observation);
}

/** Identifies the order of an observation across all sources. */
export function orderIdentity({ sourceId, snapshot }: Observation): string {
  // JSON separates the two parts whatever characters they contain.
  return JSON.stringify([sourceId, snapshot.fields.reference]);
}
