import type { Instant } from "../domain/order/instant.ts";
import type { Window } from "../domain/window/window.ts";
import { queryInstants, type Pool } from "../database/database.ts";
import {
  HELD,
  leaseValues,
  makeLeaseLostError,
  writeUnderLease,
  type Lease,
} from "../database/leases.sql.ts";
import type { PollState } from "./pollState.sql.ts";
import { insertOmitted } from "./refetches.sql.ts";
import type { WindowRead } from "./sweeps/windows.ts";

/** More orders than this that a list omits say no more about it. */
const UNLISTED_MAX = 1_000;

/**
 * Records a window that was walked late enough, and to its end: it awaits the head sweep that makes it a proof. Beside
 * it stand the orders that the mirror has in it and its pages did not show. Throws LeaseLostError.
 *
 * Not a join: without statistics the server takes the window for one order, and would search the list once for each.
 */
export async function recordWalked(
  pool: Pool,
  lease: Lease,
  { sourceId, sweep, read }: { sourceId: string; sweep: string; read: WindowRead },
): Promise<void> {
  const { window, begunAt, requests, orders, durationMs, listed } = read;
  await writeUnderLease(
    pool,
    lease,
    `recorded as (
       insert into mirror.coverage (source_id, since, until, sweep, awaits_head, unlisted, fence, begun_at, requests,
         orders, started_at)
       select $4, $5::bigint, $6::bigint, $7, true, array(
           select reference from mirror.orders o
           where o.source_id = $4 and o.version >= $5::bigint and o.version < $6::bigint and o.gone_at is null
             and $12::text[] is not null and o.reference not in (select unnest($12::text[]))
           limit ${UNLISTED_MAX}),
         held.fence, $8::bigint, $9, $10, clock_timestamp() - $11 * interval '1 millisecond'
       from held
     )`,
    [sourceId, window.since, window.until, sweep, begunAt, requests, orders, durationMs, listed],
  );
}

/** A window of the head sweep that was walked to its end. */
export interface HeadWindow {
  readonly sourceId: string;
  /** The beginning of the sweep. */
  readonly since: Instant;
  /** Everything up to here was in the list when it was read, but may have been late. */
  readonly cursor: Instant;
  /** With the last window of the sweep: the last window that was walked before the sweep began, and is a proof now. */
  readonly closes: bigint | null;
  /** Orders on its pages. */
  readonly orders: number;
}

const CURSOR = `
with ${HELD}
update mirror.poll_state set polled_through = $5::bigint from held where source_id = $4
returning true as "isCurrent", history_since as "historySince", polled_through as "polledThrough",
  safe_through as "safeThrough", list_doubted_at is not null as "isListDoubted"`;

/** A list that omits orders proves nothing: what omits one may omit others, of which the mirror knows nothing. */
const CLOSING = `
with ${HELD}, seen as materialized (
  -- The source's row as this statement sees everything else.
  select xmin as row_of from mirror.poll_state where source_id = $4
), ground as materialized (
  -- The same row, locked, so that no proof is withdrawn before the commit. If it was changed while this part waited for the
  -- lock, it is not taken, and the caller begins again: the other parts see the database as it was before.
  select p.history_since, coalesce(p.safe_through, p.history_since) as reached, p.list_emptied_at,
    p.margin_seconds * interval '1 second' as margin
  from mirror.poll_state p, held, seen where p.source_id = $4 and p.xmin = seen.row_of for update of p
), waiting as materialized (
  -- The walked windows, each with what counts against the list.
  select c.coverage_id, c.since, c.until, c.orders, c.sweep, array(
    -- The orders that its pages did not show and that are still in it, as far as the mirror knows after this head sweep.
    select o.reference from unnest(c.unlisted) as omitted (reference)
    join mirror.orders o on o.source_id = c.source_id and o.reference = omitted.reference
    left join mirror.refetches r on r.source_id = o.source_id and r.reference = o.reference
    where o.version >= c.since and o.version < c.until and o.gone_at is null
      and not coalesce(
        -- A single read says as little of it: it did not find the order, or failed. The order is an exception.
        r.missed_at is not null or r.unconfirmed and r.failures > 0 and not o.settled
        -- It is never listed, and the mirror has it anyway: a single read has shown it a margin after a list first omitted
        -- it, and the list, walked as late, still does. Where the pages showed nothing at all, it takes a day.
        or r.next_attempt_at = 'infinity'
          and c.started_at >= r.omitted_at + case when c.orders > 0 then ground.margin else '1 day' end, false)
      -- It could not be read: an exception as well.
      and not exists (
        select from mirror.quarantine q
        where q.source_id = o.source_id and q.reference = o.reference and q.inbox_seq is null)
      -- An earlier proof of that time did without it.
      and not exists (
        select from mirror.coverage p
        where p.source_id = o.source_id and p.proved and p.until > o.version and p.since <= o.version
          and o.reference = any (p.unlisted) and (c.orders > 0 or p.orders = 0))) as omitted
  from mirror.coverage c, ground where c.source_id = $4 and c.awaits_head and c.coverage_id <= $7::bigint
), list as materialized (
  -- Since when the list shows nothing that it should show.
  select case
      -- It ends with anything that this sweep or the windows show.
      when $8 > 0 or exists (select from waiting where orders > 0) then null
      -- The windows have orders that reads have shown, gone since or not,
      when exists (
        select from waiting w join mirror.orders o on o.source_id = $4 and o.version >= w.since and o.version < w.until
        where o.gone_at is null and o.horizon is not null or exists (
          select from mirror.history h
          where h.source_id = o.source_id and h.reference = o.reference and h.via <> 'webhook' and h.verdict <> 'gone'))
        -- or a single read alone has moved an omitted order on.
        or exists (
          select from mirror.refetches r
          where r.source_id = $4 and r.omitted_at is not null and r.attempts > 0 and r.failures = 0 and r.missed_at is null)
        then coalesce(ground.list_emptied_at, clock_timestamp())
      else ground.list_emptied_at
    end as emptied_at
  from ground
), doubted as materialized (
  -- The list may have hidden others in all windows. After a day of the same emptiness this is how the provider is.
  select w.* from waiting w, list
  where cardinality(w.omitted) > 0 or coalesce(list.emptied_at > clock_timestamp() - interval '1 day', false)
), asked as (
  -- Single reads show whether the provider still has what its list omits.
  ${insertOmitted("$4", "select unnest(omitted) from waiting")}
), forgotten as (
  -- From now on the proof knows which orders are never listed.
  delete from mirror.refetches
  where source_id = $4 and omitted_at is not null and next_attempt_at = 'infinity' and not exists (select from doubted)
), rejected as (
  -- In doubt no window becomes a proof; all are read again.
  delete from mirror.coverage c using waiting w
  where c.source_id = $4 and c.coverage_id = w.coverage_id and exists (select from doubted)
), reported as (
  -- The requests for periods count their windows among these.
  update mirror.period_requests r set unproved = r.unproved + own.windows
  from (
    select r.request_id, count(*) as windows from mirror.period_requests r
    join waiting w on w.sweep in ('verify', 'backfill') and w.since >= r.since and w.until <= r.until
    where r.source_id = $4 and r.state = 'running' and exists (select from doubted) group by r.request_id) own
  where r.source_id = $4 and r.request_id = own.request_id
), confirmed as (
  -- The windows become proofs.
  update mirror.coverage c set proved = true, awaits_head = false from waiting w
  where c.source_id = $4 and c.coverage_id = w.coverage_id and not exists (select from doubted)
  returning c.since, c.until
), proof as (
  -- All proofs that may join what is claimed: older ones, these, and the claim itself.
  select int8range(c.since, c.until) as span from mirror.coverage c, ground
  where c.source_id = $4 and c.proved and (c.until > ground.reached or c.since < ground.history_since)
  union all select int8range(since, until) from confirmed
  union all select int8range(history_since, reached) from ground
), run as (
  -- What is proved without a gap, if it extends the claim in either direction.
  select span from (select unnest(range_agg(span)) as span from proof) runs, ground
  where lower(span) <= ground.history_since and upper(span) > ground.reached
    or lower(span) < ground.history_since and upper(span) >= ground.reached
), reproved as (
  -- Breaches whose period is proved again.
  update mirror.coverage_breaches b set reproved_at = clock_timestamp()
  from ground
  where b.source_id = $4 and b.reproved_at is null and int8range(b.since, b.until) <@ (select range_agg(span) from (
    select int8range(p.since, p.until) as span from mirror.proved p
    where p.source_id = $4 and p.until > b.since and p.since < b.until
    union all select int8range(since, until) from confirmed) proved)
), moved as (
  -- The claim reaches the end of the run only if this sweep began no later than there ($6): an order that left a window
  -- while that was being read is beyond it.
  update mirror.poll_state p set polled_through = $5::bigint,
    history_since = least(p.history_since, (select lower(span) from run)),
    safe_through = greatest(p.safe_through, (select upper(span) from run where upper(span) >= $6::bigint)),
    list_emptied_at = list.emptied_at,
    -- A sweep that closes no window shows nothing of the doubt.
    list_doubted_at = case
      when exists (select from doubted) then coalesce(p.list_doubted_at, clock_timestamp())
      when not exists (select from waiting) then p.list_doubted_at
    end
  from list where source_id = $4
  returning p.history_since, p.polled_through, p.safe_through, p.list_doubted_at
)
select exists (select from ground) as "isCurrent", history_since as "historySince", polled_through as "polledThrough",
  safe_through as "safeThrough", list_doubted_at is not null as "isListDoubted"
from held left join moved on true`;

/**
 * Records a window of the head sweep. Its last one makes proofs of the windows that were walked before the sweep began,
 * and moves `safe_through` to the end of the contiguous run of proofs that begins at the source's history_since: never
 * past a gap, and never back. Returns how far everything is then. Throws LeaseLostError; then nothing was written.
 */
export async function commitHead(pool: Pool, lease: Lease, head: HeadWindow): Promise<PollState> {
  const { sourceId, since, cursor, closes, orders } = head;
  const values = [
    ...leaseValues(lease),
    sourceId,
    cursor,
    ...(closes === null ? [] : [since, closes, orders]),
  ];
  for (;;) {
    const statement = closes === null ? CURSOR : CLOSING;
    const [row] = await queryInstants<PollState & { isCurrent: boolean }>(pool, statement, values);
    if (row === undefined) throw makeLeaseLostError(lease);
    const { isCurrent, ...reached } = row;
    // Otherwise a proof was withdrawn meanwhile.
    if (isCurrent) return reached;
  }
}

/** The windows that the next head sweep has to close. */
export interface Walked {
  /** The last window that awaits a head sweep; null if none does. */
  readonly upTo: bigint | null;
  /** The end of what can be claimed after it; null if that is no more than now. */
  readonly reach: Instant | null;
}

/** Reads what awaits its head sweep. */
export async function readWalked(pool: Pool, sourceId: string): Promise<Walked> {
  const [walked] = await queryInstants<Walked>(
    pool,
    `with ground as (
       select history_since, coalesce(safe_through, history_since) as reached
       from mirror.poll_state where source_id = $1
     ), walked as materialized (
       select c.since, c.until, c.awaits_head from mirror.coverage c, ground
       where c.source_id = $1 and (c.proved or c.awaits_head) and c.until > ground.reached
     )
     select (select max(coverage_id) from mirror.coverage where source_id = $1 and awaits_head) as "upTo", (
       select upper(span) from ground, (
         select unnest(range_agg(span)) as span from (
           select int8range(since, until) as span from walked
           union all select int8range(history_since, reached) from ground) spans) runs
       where lower(span) <= reached and upper(span) > reached) as reach`,
    [sourceId],
  );
  return walked ?? { upTo: null, reach: null };
}

/**
 * Reads the parts of `within` that no proved window covers, at most `limit`, oldest first or `newestFirst`; with
 * `resting` without these windows and those that await their head sweep. The period between history_since and
 * safe_through is proved although its windows may have been deleted (retention/retention.sql.ts).
 */
export async function readGaps(
  pool: Pool,
  query: {
    sourceId: string;
    within: Window;
    limit: number;
    newestFirst?: boolean;
    resting?: readonly Window[];
  },
): Promise<Window[]> {
  const { sourceId, within, limit, newestFirst = false, resting } = query;
  return queryInstants<Window>(
    pool,
    `select lower(gap) as since, upper(gap) as until
     from unnest(int8multirange(int8range($2::bigint, $3::bigint)) - coalesce(
       (select range_agg(int8range(since, until)) from (
          select source_id, since, until from mirror.proved
          union all select source_id, since, until from mirror.coverage where awaits_head and $5
          union all select $1::text, since, until from unnest($7::bigint[], $8::bigint[]) as resting (since, until)) covered
        where source_id = $1 and until > $2::bigint and since < $3::bigint),
       '{}'::int8multirange)) as gap
     order by case when $6 then -lower(gap) else lower(gap) end limit $4`,
    [
      sourceId,
      within.since,
      within.until,
      limit,
      resting !== undefined,
      newestFirst,
      resting?.map(({ since }) => since),
      resting?.map(({ until }) => until),
    ],
  );
}

/** Known orders that a list must show, so that an empty or truncated one is noticed. */
const KNOWN_ORDERS = 3;

/**
 * The updatedAt of the last orders before `before` that a read has shown, gone since or not; undefined if there are
 * none.
 */
export async function readKnownBefore(
  pool: Pool,
  { sourceId, before }: { sourceId: string; before: Instant },
): Promise<Instant | undefined> {
  const [known] = await queryInstants<{ version: Instant | null }>(
    pool,
    `select min(version) as version from (
       select version from mirror.orders
       where source_id = $1 and version < $2::bigint and horizon is not null
       order by version desc limit ${KNOWN_ORDERS}) known`,
    [sourceId, before],
  );
  return known?.version ?? undefined;
}
