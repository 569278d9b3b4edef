import type { Via } from "../domain/order/observation.ts";
import type { OutgoingType } from "../domain/order/outgoing.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Change } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";

/** A delivery that only this process may attempt, until the attempt counts as lost. */
export interface ClaimedDelivery {
  readonly kind: "claimed";
  readonly endpointId: string;
  readonly type: OutgoingType;
  /** Number of this attempt in its round, from 1. */
  readonly attempt: number;
  /** The epoch of the change's position. */
  readonly epoch: string;
  readonly change: Change;
}

/** The word that changes of a source were removed before the endpoint was notified of them. */
export interface MissedChanges {
  readonly kind: "missed";
  readonly endpointId: string;
  readonly attempt: number;
  readonly epoch: string;
  readonly sourceId: string;
  /** Position of the last change that the endpoint was notified of. */
  readonly after: bigint;
  /** Position of the last change that was removed. */
  readonly through: bigint;
  /** When it was found, by the database's clock. */
  readonly foundAt: Instant;
}

export type Claim =
  | ClaimedDelivery
  | MissedChanges
  /** To be requested again after this time: it is not due yet, or its endpoint is paused. */
  | { readonly kind: "wait"; readonly afterMs: number }
  /** The change is no longer kept: there is nothing to send. */
  | { readonly kind: "removed" }
  /** Delivered, dead or gone. */
  | { readonly kind: "over" };

interface ClaimRow {
  readonly endpoint_id: string;
  readonly event_type: OutgoingType | "changes.missed";
  readonly delivery_source_id: string;
  readonly delivery_position: string;
  readonly missed_after_position: string;
  readonly found_micros: string;
  readonly attempts: number;
  readonly epoch: string;
  /** Null when the change was removed; then everything of it is. */
  readonly position: string | null;
  readonly digest: string;
  readonly source_id: string;
  readonly reference: string;
  readonly revision: number;
  readonly status: string;
  readonly previous_status: string | null;
  readonly verdict: Change["verdict"];
  readonly via: Via;
  readonly event_id: string | null;
  readonly change_type: string | null;
  readonly version: string;
  readonly changed_micros: string;
  readonly after: string | null;
  readonly before: string | null;
}

const CLAIM = `
  with claimed as (
    update mirror.outgoing_deliveries d
    set attempts = attempts + 1, last_attempt_at = clock_timestamp(),
      next_attempt_at = clock_timestamp() + make_interval(secs => $2)
    from mirror.outgoing_endpoints e
    where d.delivery_id = $1 and d.state = 'pending' and d.next_attempt_at <= clock_timestamp()
      and e.endpoint_id = d.endpoint_id and (e.paused_until is null or e.paused_until <= clock_timestamp())
    returning d.*
  )
  select d.endpoint_id, d.event_type, d.source_id as delivery_source_id, d.position as delivery_position,
    d.missed_after_position,
    (extract(epoch from d.created_at) * 1000000)::bigint as found_micros, d.attempts,
    (select epoch from mirror.feed_epochs order by epoch_number desc limit 1) as epoch,
    c.position, mirror.change_digest(c) as digest, c.source_id, c.reference, c.revision,
    c.status, c.previous_status, c.verdict, c.via, c.event_id, c.event_type as change_type, c.version,
    (extract(epoch from c.changed_at) * 1000000)::bigint as changed_micros, h.raw::text as after, p.raw::text as before
  from claimed d
  left join mirror.changes c on c.position = d.position and c.source_id = d.source_id
  left join mirror.history h on h.history_id = c.history_id
  left join mirror.history p on p.history_id = c.previous_history_id`;

const WAITING = `
  select greatest(0, ceil(extract(epoch from
    greatest(d.next_attempt_at, coalesce(e.paused_until, d.next_attempt_at)) - clock_timestamp()) * 1000))::int as after_ms
  from mirror.outgoing_deliveries d join mirror.outgoing_endpoints e using (endpoint_id)
  where d.delivery_id = $1 and d.state = 'pending'`;

/** Claims a delivery for one attempt, which is taken for lost after `lostAfterSeconds`. */
export async function claimDelivery(
  pool: Pool,
  { deliveryId, lostAfterSeconds }: { deliveryId: string; lostAfterSeconds: number },
): Promise<Claim> {
  const claimed = await pool.query<ClaimRow>(CLAIM, [deliveryId, lostAfterSeconds]);
  const [row] = claimed.rows;
  if (row !== undefined) return toClaim(row);
  const waiting = await pool.query<{ after_ms: number }>(WAITING, [deliveryId]);
  const afterMs = waiting.rows[0]?.after_ms;
  return afterMs === undefined ? { kind: "over" } : { kind: "wait", afterMs };
}

/** How an attempt ended. */
export interface AttemptOutcome {
  readonly deliveryId: string;
  /** A status or the kind of an error; shown to people. */
  readonly outcome: string;
  readonly result: "delivered" | "dead" | { readonly retryAfterMs: number };
}

/** An endpoint with this many failures in a row is paused, at first for PAUSE_SECONDS, then twice as long each time. */
const FAILURES_BEFORE_PAUSE = 5;
const PAUSE_SECONDS = 5;
const PAUSE_DOUBLINGS_MAX = 6;

const RECORD = `
  with recorded as (
    update mirror.outgoing_deliveries set
      state = $2, last_outcome = $3,
      delivered_at = case when $2 = 'delivered' then clock_timestamp() end,
      next_attempt_at = clock_timestamp() + make_interval(secs => $4)
    where delivery_id = $1 and state = 'pending'
    returning endpoint_id
  )
  update mirror.outgoing_endpoints e set
    failures_in_row = case when $2 = 'delivered' then 0 else failures_in_row + 1 end,
    paused_until = case
      when $2 = 'delivered' or failures_in_row + 1 < ${FAILURES_BEFORE_PAUSE} then null
      else clock_timestamp() + make_interval(secs =>
        ${PAUSE_SECONDS} * 2 ^ least(failures_in_row + 1 - ${FAILURES_BEFORE_PAUSE}, ${PAUSE_DOUBLINGS_MAX}))
    end
  from recorded where e.endpoint_id = recorded.endpoint_id
    and not ($2 = 'delivered' and e.failures_in_row = 0)`;

/** Records an attempt, and pauses an endpoint that fails again and again. */
export async function recordAttempt(
  pool: Pool,
  { deliveryId, outcome, result }: AttemptOutcome,
): Promise<void> {
  const state = typeof result === "string" ? result : "pending";
  const waitSeconds = typeof result === "string" ? 0 : result.retryAfterMs / 1_000;
  await pool.query(RECORD, [deliveryId, state, outcome, waitSeconds]);
}

function toClaim(row: ClaimRow): Claim {
  const { position, event_type: type } = row;
  if (type === "changes.missed") return toMissed(row);
  if (position === null) return { kind: "removed" };
  return {
    kind: "claimed",
    endpointId: row.endpoint_id,
    type,
    attempt: row.attempts,
    epoch: row.epoch,
    change: {
      position: BigInt(position),
      digest: row.digest,
      sourceId: row.source_id,
      reference: row.reference,
      revision: row.revision,
      status: row.status,
      previousStatus: row.previous_status,
      verdict: row.verdict,
      via: row.via,
      eventId: row.event_id,
      eventType: row.change_type,
      version: BigInt(row.version),
      changedAt: BigInt(row.changed_micros) * 1_000n,
      after: row.after,
      before: row.before,
    },
  };
}

function toMissed(row: ClaimRow): MissedChanges {
  return {
    kind: "missed",
    endpointId: row.endpoint_id,
    attempt: row.attempts,
    epoch: row.epoch,
    sourceId: row.delivery_source_id,
    after: BigInt(row.missed_after_position),
    through: BigInt(row.delivery_position),
    foundAt: BigInt(row.found_micros) * 1_000n,
  };
}
