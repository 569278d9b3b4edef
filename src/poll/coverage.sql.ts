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
import { insertUnlisted } from "./refetches.sql.ts";

/** A window that was walked late enough, and to its end: it awaits the head sweep that makes it a proof. */
export interface WalkedWindow extends Window {
  readonly sourceId: string;
  readonly sweep: string;
  /** Provider-clock instant at which the first page was requested, a lower bound. */
  readonly begunAt: Instant;
  readonly requests: number;
  readonly orders: number;
  readonly durationMs: number;
  /** References on its pages; null if there were too many to keep. */
  readonly listed: readonly string[] | null;
}

/** More orders than this that a list omits say no more about it. */
const UNLISTED_MAX = 1_000;

/**
 * Records a walked window, with the orders that the mirror has in it and its pages did not show. Throws LeaseLostError.
 *
 * Not a join: without statistics the server takes the window for one order, and would search the list once for each.
 */
export async function recordWalked(pool: Pool, lease: Lease, walked: WalkedWindow): Promise<void> {
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
    [
      walked.sourceId,
      walked.since,
      walked.until,
      walked.sweep,
      walked.begunAt,
      walked.requests,
      walked.orders,
      walked.durationMs,
      walked.listed,
    ],
  );
}

/** A window of the head sweep that was walked to its end. */
export interface HeadWindow {
  readonly sourceId: string;
  /** Where the sweep began. */
  readonly since: Instant;
  /** Everything up to here was in the list when it was read, but may have been late. */
  readonly cursor: Instant;
  /** With the last window of the sweep: the last window that was walked before the sweep began, and is a proof now. */
  readonly closes: bigint | null;
}

/** How far everything is after the commit. */
export interface Progress {
  readonly historySince: Instant;
  readonly polledThrough: Instant;
  readonly safeThrough: Instant | null;
  /** Walked windows that are no proof: the provider's list omitted orders in them that the mirror has. Null: not closed. */
  readonly doubted: number | null;
}

const CURSOR = `
with ${HELD}
update mirror.poll_state set polled_through = $5::bigint from held where source_id = $4
returning true as "isCurrent", history_since as "historySince", polled_through as "polledThrough",
  safe_through as "safeThrough", null::int as doubted`;

/*
 * - ground: the source's row of poll_state, locked, so that no proof is withdrawn before the commit. The statement's other
 *   parts see the database as it was before it waited for that lock: a row that was changed meanwhile is not taken (xmin).
 * - waiting: the walked windows, with the orders that their pages did not show and that are still in them, as far as the
 *   mirror knows after this head sweep.
 * - doubted: the list may have hidden others, too, in all of them. Not so if it omits, a margin after it first did, only
 *   orders that were read singly since, and shows others: such orders are never listed, and the mirror has them anyway.
 *   An order that was omitted and has moved on says nothing for an empty list: a single read may have moved it.
 * - run: what is proved without a gap. This sweep must reach back to its end: an order that left a window while that was
 *   being read is beyond it.
 */
const CLOSING = `
with ${HELD}, seen as materialized (
  select xmin as row_of from mirror.poll_state where source_id = $4
), ground as materialized (
  select p.history_since, coalesce(p.safe_through, p.history_since) as reached, p.list_omitted,
    p.margin_seconds * interval '1 second' as margin
  from mirror.poll_state p, held, seen where p.source_id = $4 and p.xmin = seen.row_of for update of p
), waiting as materialized (
  select c.coverage_id, c.since, c.until, c.orders, c.started_at, array(
    select o.reference from unnest(c.unlisted) as omitted (reference)
    join mirror.orders o on o.source_id = c.source_id and o.reference = omitted.reference
    where o.version >= c.since and o.version < c.until and o.gone_at is null and not exists (
      select from mirror.refetches r where r.source_id = o.source_id and r.reference = o.reference
        and r.failures > 0 and not o.settled
    ) and not exists (
      select from mirror.quarantine q where q.source_id = o.source_id and q.reference = o.reference
        and q.state = 'open' and q.inbox_seq is null)) as omitted
  from mirror.coverage c, ground where c.source_id = $4 and c.awaits_head and c.coverage_id <= $7::bigint
), remembered as materialized (
  select omitted.key as reference, omitted.value::timestamptz as since
  from ground, jsonb_each_text(ground.list_omitted) omitted
), moved_on as materialized (
  select r.reference, r.since
  from remembered r join mirror.orders o on o.source_id = $4 and o.reference = r.reference and o.gone_at is null
  where not exists (select from waiting w where o.version >= w.since and o.version < w.until)
), doubted as materialized (
  select * from waiting w where exists (
    select from ground, unnest(w.omitted) as omitted (reference) left join remembered r using (reference)
    where w.orders = 0 or r.since is null or w.started_at < r.since + ground.margin or exists (
      select from mirror.refetches f where f.source_id = $4 and f.reference = omitted.reference))
    or w.orders = 0 and exists (select from moved_on)
), asked as (
  ${insertUnlisted("$4", "select unnest(omitted) from waiting")}
), to_remember as (
  select distinct reference, coalesce(r.since, clock_timestamp()) as since
  from (select unnest(omitted) as reference from waiting) omitted left join remembered r using (reference)
  union all select reference, since from moved_on
), rejected as (
  delete from mirror.coverage c using waiting w
  where c.source_id = $4 and c.coverage_id = w.coverage_id and exists (select from doubted)
), reported as (
  update mirror.period_requests set unproved = unproved + 1
  where source_id = $4 and state = 'running' and exists (select from doubted)
), confirmed as (
  update mirror.coverage c set proved = true, awaits_head = false, unlisted = '{}' from waiting w
  where c.source_id = $4 and c.coverage_id = w.coverage_id and not exists (select from doubted)
  returning c.since, c.until
), proof as (
  select int8range(c.since, c.until) as span from mirror.coverage c, ground
  where c.source_id = $4 and c.proved and (c.until > ground.reached or c.since < ground.history_since)
  union all select int8range(since, until) from confirmed
  union all select int8range(history_since, reached) from ground
), run as (
  select span from (select unnest(range_agg(span)) as span from proof) runs, ground
  where lower(span) <= ground.history_since and upper(span) > ground.reached
    or lower(span) < ground.history_since and upper(span) >= ground.reached
), reproved as (
  update mirror.coverage_breaches b set reproved_at = clock_timestamp()
  from ground
  where b.source_id = $4 and b.reproved_at is null and int8range(b.since, b.until) <@ (select range_agg(span) from (
    select int8range(p.since, p.until) as span from mirror.proved p
    where p.source_id = $4 and p.until > b.since and p.since < b.until
    union all select int8range(since, until) from confirmed) proved)
), moved as (
  update mirror.poll_state p set polled_through = $5::bigint,
    history_since = least(p.history_since, (select lower(span) from run)),
    safe_through = greatest(p.safe_through, (select upper(span) from run where upper(span) >= $6::bigint)),
    list_omitted = (select coalesce(jsonb_object_agg(reference, since), '{}') from to_remember),
    list_doubted_at = case
      when exists (select from doubted) then coalesce(p.list_doubted_at, clock_timestamp())
      when not exists (select from waiting) then p.list_doubted_at
    end
  from ground where source_id = $4
  returning p.history_since, p.polled_through, p.safe_through
)
select exists (select from ground) as "isCurrent", history_since as "historySince", polled_through as "polledThrough",
  safe_through as "safeThrough", (select count(*) from doubted)::int as doubted
from held left join moved on true`;

/**
 * Records a window of the head sweep. Its last one makes proofs of the windows that were walked before the sweep began,
 * and moves `safe_through` to the end of the contiguous run of proofs that begins at the source's history_since: never
 * past a gap, and never back. Throws LeaseLostError; then nothing was written.
 */
export async function commitHead(pool: Pool, lease: Lease, head: HeadWindow): Promise<Progress> {
  const { sourceId, since, cursor, closes } = head;
  const values = [...leaseValues(lease), sourceId, cursor, ...(closes === null ? [] : [since, closes])];
  for (;;) {
    const statement = closes === null ? CURSOR : CLOSING;
    const [row] = await queryInstants<Progress & { isCurrent: boolean }>(pool, statement, values);
    if (row === undefined) throw makeLeaseLostError(lease);
    const { isCurrent, ...progress } = row;
    // Otherwise a proof was withdrawn meanwhile.
    if (isCurrent) return progress;
  }
}

/** What the next head sweep has to close. */
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
 * The parts of `within` that no proved window covers, at most `limit`: oldest first, or `newestFirst` and without the
 * windows that await their head sweep. The period between history_since and safe_through is proved although its windows
 * may have been deleted; see removeCoverage.
 */
export async function readGaps(
  pool: Pool,
  query: { sourceId: string; within: Window; limit: number; newestFirst?: boolean; withoutWalked?: boolean },
): Promise<Window[]> {
  const { sourceId, within, limit, newestFirst = false, withoutWalked = false } = query;
  return queryInstants<Window>(
    pool,
    `select lower(gap) as since, upper(gap) as until
     from unnest(int8multirange(int8range($2::bigint, $3::bigint)) - coalesce(
       (select range_agg(int8range(since, until)) from (
          select source_id, since, until from mirror.proved
          union all select source_id, since, until from mirror.coverage where awaits_head and $5) covered
        where source_id = $1 and until > $2::bigint and since < $3::bigint),
       '{}'::int8multirange)) as gap
     order by case when $6 then -lower(gap) else lower(gap) end limit $4`,
    [sourceId, within.since, within.until, limit, withoutWalked, newestFirst],
  );
}

/** So many known orders that a list must show, so that an empty or truncated one is noticed. */
const KNOWN_ORDERS = 3;

/** The updatedAt of the last orders before `before` that a read has shown; undefined if there are none. */
export async function readKnownBefore(
  pool: Pool,
  { sourceId, before }: { sourceId: string; before: Instant },
): Promise<Instant | undefined> {
  const [known] = await queryInstants<{ version: Instant | null }>(
    pool,
    `select min(version) as version from (
       select version from mirror.orders
       where source_id = $1 and version < $2::bigint and horizon is not null and gone_at is null
       order by version desc limit ${KNOWN_ORDERS}) known`,
    [sourceId, before],
  );
  return known?.version ?? undefined;
}
