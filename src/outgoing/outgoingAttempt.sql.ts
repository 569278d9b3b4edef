import type { OutgoingType } from "../domain/order/outgoing.ts";
import type { Instant } from "../domain/order/instant.ts";
import { changeColumns, toChange } from "../changes/change.sql.ts";
import type { Change, ChangeRow } from "../changes/change.sql.ts";
import type { Pool } from "../database/database.ts";
import { inTransaction } from "../database/transaction.ts";
import type { OutgoingWebhook } from "../runtime/config/outgoingFile.ts";

interface ClaimedAttempt {
  readonly attemptId: string;
  readonly endpointId: string;
  readonly deliveryId: string;
  /** Number of this attempt in its round, from 1. */
  readonly attempt: number;
}

/** A delivery that only this process may attempt, until the attempt counts as lost. */
export interface ClaimedDelivery extends ClaimedAttempt {
  readonly kind: "claimed";
  readonly type: OutgoingType;
  /** The epoch of the change's position. */
  readonly epoch: string;
  readonly change: Change;
}

/** The word that changes of a source were removed before the endpoint was notified of them. */
export interface MissedChanges extends ClaimedAttempt {
  readonly kind: "missed";
  readonly epoch: string;
  readonly sourceId: string;
  /** Position of the last change that the endpoint was notified of. */
  readonly after: bigint;
  /** Position of the last change that was removed. */
  readonly through: bigint;
  /** When it was found, by the database's clock. */
  readonly foundAt: Instant;
}

/** The change is no longer kept: there is nothing to send. */
export interface RemovedChange extends ClaimedAttempt {
  readonly kind: "removed";
}

export type Claim = ClaimedDelivery | MissedChanges | RemovedChange;

interface ClaimRow extends Omit<ChangeRow, "position"> {
  readonly room: number;
  readonly postponed: number;
  /** Null when nothing was claimed; then all that follows is. */
  readonly attemptId: string | null;
  readonly deliveryId: string;
  readonly endpointId: string;
  readonly messageType: OutgoingType | "changes.missed";
  readonly claimedSourceId: string;
  readonly claimedPosition: string;
  readonly missedAfter: string;
  readonly foundMicros: string;
  readonly attempts: number;
  readonly epoch: string;
  /** Null when the change was removed; then everything of it is. */
  readonly position: string | null;
}

/** An endpoint has at most this many attempts under way, whatever the number of processes. */
export const UNDER_WAY_MAX = 10;
/** An endpoint with this many failures in a row is paused, at first for PAUSE_SECONDS, then twice as long each time. */
const FAILURES_BEFORE_PAUSE = 5;
const PAUSE_SECONDS = 5;
const PAUSE_DOUBLINGS_MAX = 6;

// The lock serialises the claims of an endpoint. Counts need a statement of their own, which sees all earlier claims.
const LOCK = `
  select failures_in_row as "failuresInRow" from mirror.outgoing_endpoints
  where endpoint_id = $1 and paused_at is null and (paused_until is null or paused_until <= clock_timestamp())
  for no key update`;

/** An ordered endpoint may have many changes that wait for others: a claim examines this many due ones. */
const EXAMINED_MAX = 200;
/** A change that waits for another of its order is released when that one ends; see RECORD. */
const POSTPONED_SECONDS = 60;

/*
 * A delivery that an attempt's end is being recorded of is skipped: waiting for it here could deadlock. $3 is the number
 * of attempts that may be under way. With $5, an order's changes are claimed one after the other: one that must wait is
 * postponed, so that it is not examined again and again. If the one that it waits for is under way, it may have ended
 * since the beginning of this statement, so the delay is short.
 */
const CLAIM = `
  with limits as materialized (
    select greatest(0, least(
      $2::int,
      $3::int - (select count(*) from mirror.outgoing_attempts a where a.endpoint_id = $1 and a.ended_at is null
        and not a.accepted and a.started_at > statement_timestamp() - make_interval(secs => $6)),
      $4::int - (select count(*) from mirror.outgoing_attempts a where a.endpoint_id = $1
        and a.started_at > statement_timestamp() - interval '1 second')))::int as room
  ), due as materialized (
    select d.delivery_id, d.source_id, d.reference, d.position, d.next_attempt_at
    from mirror.outgoing_deliveries d
    where d.endpoint_id = $1 and d.state = 'pending' and d.next_attempt_at <= statement_timestamp()
      and (select room from limits) > 0
    order by d.next_attempt_at, d.delivery_id
    limit (select case when $5 then ${EXAMINED_MAX} else room end from limits)
    for update of d skip locked
  ), examined as materialized (
    select due.delivery_id, due.next_attempt_at, earlier.wait_until
    from due left join lateral (
      select case
        when e.next_attempt_at <= statement_timestamp()
          then statement_timestamp() + interval '${POSTPONED_SECONDS} seconds'
        when exists (select from mirror.outgoing_attempts a where a.delivery_id = e.delivery_id
          and a.ended_at is null and a.started_at > statement_timestamp() - make_interval(secs => $6))
          then statement_timestamp() + interval '1 second'
        else e.next_attempt_at end as wait_until
      from mirror.outgoing_deliveries e
      where $5 and e.endpoint_id = $1 and e.source_id = due.source_id and e.reference = due.reference
        and e.position < due.position and e.state = 'pending'
      order by e.position limit 1
    ) earlier on true
  ), postponed as (
    update mirror.outgoing_deliveries d set next_attempt_at = examined.wait_until
    from examined where d.delivery_id = examined.delivery_id and examined.wait_until is not null
    returning 1
  ), picked as materialized (
    select delivery_id from examined where wait_until is null
    order by next_attempt_at, delivery_id limit (select room from limits)
  ), claimed as (
    update mirror.outgoing_deliveries d
    set attempts = attempts + 1, last_attempt_at = clock_timestamp(),
      next_attempt_at = clock_timestamp() + make_interval(secs => $6)
    from picked where d.delivery_id = picked.delivery_id
    returning d.*
  ), noted as (
    insert into mirror.outgoing_attempts (endpoint_id, delivery_id, round, attempt)
    select endpoint_id, delivery_id, round, attempts from claimed order by delivery_id
    returning attempt_id, delivery_id
  )
  select l.room, (select count(*)::int from postponed) as postponed, a.attempt_id as "attemptId", d.delivery_id as "deliveryId", d.endpoint_id as "endpointId",
    d.event_type as "messageType", d.source_id as "claimedSourceId", d.position as "claimedPosition",
    d.missed_after_position as "missedAfter", (extract(epoch from d.created_at) * 1000000)::bigint as "foundMicros",
    d.attempts, (select epoch from mirror.feed_epochs order by epoch_number desc limit 1) as epoch,
    ${changeColumns("c")}, mirror.change_digest(c) as digest, h.raw::text as after, p.raw::text as before
  from limits l
  left join (claimed d join noted a using (delivery_id)) on true
  left join mirror.changes c on c.position = d.position and c.source_id = d.source_id
  left join mirror.snapshots h on h.history_id = c.history_id
  left join mirror.snapshots p on p.history_id = c.previous_history_id
  order by d.position`;

export interface ClaimQuery extends Pick<OutgoingWebhook, "endpointId" | "ordered" | "rate"> {
  readonly limit: number;
  /** An attempt without a recorded end is taken for lost after this time. */
  readonly lostAfterSeconds: number;
}

/**
 * Claims the deliveries of an endpoint that have been due the longest, for one attempt each. `isHeld`: more may be due,
 * but the endpoint has enough attempts under way or in this second. None while the endpoint is paused.
 */
export async function claimDue(
  pool: Pool,
  { endpointId, limit, ordered, rate, lostAfterSeconds }: ClaimQuery,
): Promise<{ claims: Claim[]; isHeld: boolean }> {
  const rows = await inTransaction(pool, async (client) => {
    const locked = await client.query<{ failuresInRow: number }>(LOCK, [endpointId]);
    const [endpoint] = locked.rows;
    if (endpoint === undefined) return [];
    // One message shows whether an endpoint that failed works again.
    const underWayMax = endpoint.failuresInRow < FAILURES_BEFORE_PAUSE ? UNDER_WAY_MAX : 1;
    const values = [endpointId, limit, underWayMax, rate, ordered, lostAfterSeconds];
    return (await client.query<ClaimRow>(CLAIM, values)).rows;
  });
  const claims = rows.flatMap((row) => (row.attemptId === null ? [] : [toClaim(row, row.attemptId)]));
  const [first] = rows;
  return { claims, isHeld: first !== undefined && (claims.length === first.room || first.postponed > 0) };
}

/*
 * Only deliveries that wait for another attempt are examined. Times of a delivery are corrected, too: by them it would
 * be taken for one of these again, and lose its later waits.
 */
const CORRECT = `
  with waiting as (
    update mirror.outgoing_deliveries set next_attempt_at = statement_timestamp(),
      created_at = least(created_at, statement_timestamp()),
      last_attempt_at = least(last_attempt_at, statement_timestamp())
    where endpoint_id = $1 and state = 'pending' and next_attempt_at > statement_timestamp() + interval '1 minute'
      and greatest(created_at, last_attempt_at) > statement_timestamp() + interval '1 minute'
  ), paused as (
    update mirror.outgoing_endpoints set paused_until = null
    where endpoint_id = $1
      and paused_until > statement_timestamp() + interval '${PAUSE_SECONDS * 2 ** PAUSE_DOUBLINGS_MAX + 60} seconds'
  )
  update mirror.outgoing_attempts set started_at = statement_timestamp()
  where endpoint_id = $1 and started_at > statement_timestamp() + interval '1 minute'`;

/**
 * Corrects what was dated while the clock was ahead, once that is set back. Otherwise deliveries wait, the endpoint
 * stays paused, and attempts count as of this second or under way, for as long as the clock was ahead.
 */
export async function correctTimesAhead(pool: Pool, endpointId: string): Promise<void> {
  await pool.query(CORRECT, [endpointId]);
}

export interface AttemptEnd {
  readonly attemptId: string;
  /** A status or the kind of an error; shown to people. */
  readonly outcome: string;
  readonly durationMs: number;
  /** The beginning of the answer, as people may see it; null: empty. */
  readonly answer: string | null;
  readonly result: "delivered" | "dead" | { readonly retryAfterMs: number };
}

// The order may have been erased during the attempt: the answer could still repeat what the message said.
// A later attempt or round of the delivery is not disturbed by an earlier one that fails late. What ends releases the
// order's next change, if that was not sent yet: it may have been postponed.
const RECORD = `
  with ended as (
    update mirror.outgoing_attempts a
    set ended_at = clock_timestamp(), accepted = ($2 = 'delivered'), outcome = $3, duration_ms = $5,
      answer = case when not exists (
        select from mirror.outgoing_deliveries d
        join mirror.erasures e on e.source_id = d.source_id and e.reference = d.reference
        where d.delivery_id = a.delivery_id) then $6 end
    where attempt_id = $1 and ended_at is null
    returning endpoint_id, delivery_id, round, attempt
  ), recorded as (
    update mirror.outgoing_deliveries d set
      state = $2, last_outcome = $3,
      delivered_at = case when $2 = 'delivered' then clock_timestamp() end,
      next_attempt_at = clock_timestamp() + make_interval(secs => $4)
    from ended where d.delivery_id = ended.delivery_id and d.state = 'pending' and d.round = ended.round
      and ($2 = 'delivered' or d.attempts = ended.attempt)
    returning d.endpoint_id, d.source_id, d.reference, d.position
  ), released as (
    update mirror.outgoing_deliveries d set next_attempt_at = least(d.next_attempt_at, clock_timestamp())
    where $2 <> 'pending' and d.attempts = 0 and d.state = 'pending' and d.delivery_id = (
      select n.delivery_id from recorded r join mirror.outgoing_deliveries n
        on n.endpoint_id = r.endpoint_id and n.source_id = r.source_id and n.reference = r.reference
      where n.position > r.position and n.state = 'pending' order by n.position limit 1)
  )
  update mirror.outgoing_endpoints e set
    failures_in_row = case when $2 = 'delivered' then 0 else failures_in_row + 1 end,
    paused_until = case
      when $2 = 'delivered' or failures_in_row + 1 < ${FAILURES_BEFORE_PAUSE} then null
      else clock_timestamp() + make_interval(secs =>
        ${PAUSE_SECONDS} * 2 ^ least(failures_in_row + 1 - ${FAILURES_BEFORE_PAUSE}, ${PAUSE_DOUBLINGS_MAX}))
    end
  from ended where e.endpoint_id = ended.endpoint_id
    and not ($2 = 'delivered' and e.failures_in_row = 0)`;

/** Records the end of an attempt, and pauses an endpoint that fails again and again. */
export async function recordAttempt(pool: Pool, end: AttemptEnd): Promise<void> {
  const { attemptId, outcome, result, durationMs, answer } = end;
  const state = typeof result === "string" ? result : "pending";
  const waitSeconds = typeof result === "string" ? 0 : result.retryAfterMs / 1_000;
  await pool.query(RECORD, [attemptId, state, outcome, waitSeconds, Math.round(durationMs), answer]);
}

function toClaim(row: ClaimRow, attemptId: string): Claim {
  const { position, messageType: type, endpointId, deliveryId, epoch } = row;
  const claimed = { attemptId, endpointId, deliveryId, attempt: row.attempts };
  if (type === "changes.missed") return { ...claimed, ...toMissed(row) };
  if (position === null) return { ...claimed, kind: "removed" };
  return { ...claimed, kind: "claimed", type, epoch, change: toChange({ ...row, position }) };
}

function toMissed(row: ClaimRow): Omit<MissedChanges, keyof ClaimedAttempt> {
  return {
    kind: "missed",
    epoch: row.epoch,
    sourceId: row.claimedSourceId,
    after: BigInt(row.missedAfter),
    through: BigInt(row.claimedPosition),
    foundAt: BigInt(row.foundMicros) * 1_000n,
  };
}
