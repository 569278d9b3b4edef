import type { Instant } from "./instant.ts";
import { lifeCycleRank } from "./order.ts";
import type { Snapshot } from "./order.ts";

/** How we came to see a snapshot. */
const VIAS = ["webhook", "poll", "backfill", "refetch", "verify", "write"] as const;
export type Via = (typeof VIAS)[number];

/**
 * Place of an observation in the total order, compared field by field in this order.
 *
 * `settled` is true for a read whose request started after the version's instant, by the provider's clock, plus
 * the settle time: nothing can change within that version any more. `observedAt` is the provider-clock instant
 * at which the read's request started, or the event's `created`; never the time of a write of ours.
 */
export interface OrderKey {
  readonly version: Instant;
  readonly settled: boolean;
  readonly observedAt: Instant;
  readonly rank: number;
  readonly hash: string;
}

/** A snapshot, how and when we saw it, and its place in the order of all observations of that order. */
export interface Observation {
  readonly sourceId: string;
  readonly via: Via;
  readonly snapshot: Snapshot;
  readonly key: OrderKey;
}

/** Negative when `left` comes before `right`, positive when after, 0 when they are the same place. */
export function compareKeys(left: OrderKey, right: OrderKey): number {
  return (
    compare(left.version, right.version) ||
    compare(Number(left.settled), Number(right.settled)) ||
    compare(left.observedAt, right.observedAt) ||
    compare(left.rank, right.rank) ||
    // Hex of equal length sorts as the bytes do, which is how Postgres compares the bytea.
    compare(left.hash, right.hash)
  );
}

/**
 * What an incoming observation does to the stored one:
 * - `apply`: it is greater and its content differs, or nothing is stored yet;
 * - `confirm`: same version and content, but it moves the key up: it marks the version as settled, or (between
 *   two unsettled ones) was observed later. Only the key is written;
 * - `none`: nothing is written.
 *
 * A settled version that is read again writes nothing, however often: its content can only be the same.
 */
export type Effect = "apply" | "confirm" | "none";

export function decide(stored: OrderKey | undefined, incoming: OrderKey): Effect {
  if (stored === undefined) return "apply";
  if (compareKeys(incoming, stored) <= 0) return "none";
  if (incoming.version !== stored.version || incoming.hash !== stored.hash) return "apply";
  return stored.settled ? "none" : "confirm";
}

/** Same version, different content: the provider changed an order within one timestamp, or without a new one. */
export function isConflict(stored: OrderKey, incoming: OrderKey): boolean {
  return stored.version === incoming.version && stored.hash !== incoming.hash;
}

/** An event's snapshot shows the order at event time (spec, "Events"), so it never counts as settled. */
export function observeEvent(options: {
  sourceId: string;
  snapshot: Snapshot;
  created: Instant;
}): Observation {
  const { sourceId, snapshot, created } = options;
  return {
    sourceId,
    via: "webhook",
    snapshot,
    key: makeKey(snapshot, { settled: false, observedAt: created }),
  };
}

/**
 * A snapshot that came as the answer to a request of ours.
 *
 * `requestedAt` is the provider-clock instant at which the request started; `settleNanos` how long after a
 * version's instant the provider may still change that version.
 */
export function observeRead(options: {
  sourceId: string;
  via: Exclude<Via, "webhook">;
  snapshot: Snapshot;
  requestedAt: Instant;
  settleNanos: bigint;
}): Observation {
  const { sourceId, via, snapshot, requestedAt, settleNanos } = options;
  const settled = requestedAt > snapshot.version + settleNanos;
  return { sourceId, via, snapshot, key: makeKey(snapshot, { settled, observedAt: requestedAt }) };
}

function makeKey(snapshot: Snapshot, seen: { settled: boolean; observedAt: Instant }): OrderKey {
  const { version, hash, fields } = snapshot;
  return {
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
