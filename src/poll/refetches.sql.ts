import type { Instant } from "../domain/order/instant.ts";
import { queryInstants, type Pool } from "../database/database.ts";

/** A request to read one order again. */
export interface Refetch {
  readonly reference: string;
  readonly reason: string;
  /** The database's text of the request time; identifies this request. */
  readonly requestedAt: string;
  /** Time of the first of the reads that found no such order; null if the last one found it. */
  readonly missedAt: Instant | null;
  /** True while the proofs exclude the order, until this request ends. */
  readonly isExcepted: boolean;
}

/** The quarantine reason for an order whose single read keeps failing. */
const REASON = "unreadable_singly";

/** Requests single reads of orders. A waiting request starts again: the order must be read after this. */
export async function requestRefetches(
  pool: Pool,
  { sourceId, references, reason }: { sourceId: string; references: readonly string[]; reason: string },
): Promise<void> {
  await pool.query(
    `insert into mirror.refetches (source_id, reference, reason)
     select $1, reference, $3 from (select distinct unnest($2::text[]) as reference) requested order by reference
     on conflict (source_id, reference) do update set
       reason = excluded.reason, requested_at = clock_timestamp(), next_attempt_at = clock_timestamp(),
       attempts = 0, failures = 0, last_error = null`,
    [sourceId, references, reason],
  );
}

/**
 * Makes a statement that requests single reads of the orders whose references a query returns: a list has omitted them.
 * A read is decisive by now, even if it had been put off while a clock was wrong.
 */
export const insertOmitted = (source: string, references: string) =>
  `insert into mirror.refetches (source_id, reference, reason, unconfirmed, omitted_at)
   select ${source}, reference, 'not listed', true, clock_timestamp()
   from (select distinct reference from (${references}) as omitted (reference)) once order by reference
   on conflict (source_id, reference) do update set unconfirmed = true, omitted_at = excluded.omitted_at,
     next_attempt_at = least(refetches.next_attempt_at, clock_timestamp())
   where refetches.omitted_at is null
   returning reference`;

/**
 * Requests single reads of orders that are gone, for seven days: the waits grow with the time since then, from a margin
 * to a day. An order never ceases to be readable (spec, "States"), so this heals what was a fault of the provider.
 */
export async function requestGone(
  pool: Pool,
  { sourceId, marginSeconds }: { sourceId: string; marginSeconds: number },
): Promise<void> {
  await pool.query(
    `insert into mirror.refetches (source_id, reference, reason)
     select source_id, reference, 'gone, and perhaps by mistake'
     from mirror.orders, lateral (select mirror.instant_at(observed_at) as read_at) last
     where source_id = $1 and gone_at > clock_timestamp() - interval '7 days'
       and read_at + least(greatest(read_at - gone_at, '0') + $2 * interval '1 second', '1 day') <= clock_timestamp()
     order by reference
     on conflict (source_id, reference) do nothing`,
    [sourceId, marginSeconds],
  );
}

/**
 * Reads at most `limit` due requests: those of people, then those of events, then those of verifications, each as due.
 * One that was made in the future is due, because the database's clock was set back.
 */
export async function takeRefetches(
  pool: Pool,
  { sourceId, limit }: { sourceId: string; limit: number },
): Promise<Refetch[]> {
  return queryInstants<Refetch>(
    pool,
    `select reference, reason, requested_at::text as "requestedAt", missed_at as "missedAt",
       claim_version is not null or unconfirmed or replayed or exists (
         select from mirror.quarantine q
         where q.source_id = r.source_id and q.reference = r.reference and q.inbox_seq is null) as "isExcepted"
     from mirror.refetches r
     where source_id = $1 and (next_attempt_at <= clock_timestamp() or requested_at > clock_timestamp())
     order by reason not like 'requested by%', request_id is not null, next_attempt_at, reference limit $2`,
    [sourceId, limit],
  );
}

const COMPLETION = `
with asked as materialized (
  select claim_version, omitted_at from mirror.refetches
  where source_id = $1 and reference = $2 and requested_at = $3::timestamptz for update
), ended as (
  delete from mirror.refetches r using asked
  where r.source_id = $1 and r.reference = $2 and (asked.omitted_at is null or $5::bigint is null)
), remembered as (
  -- A list omitted the order that this read shows: after another read, a margin later, it is one that is never listed.
  -- Until a proof knows of that, the row says so.
  update mirror.refetches r set unconfirmed = false, replayed = false, claim_version = null, missed_at = null,
    request_id = null, attempts = r.attempts + 1, failures = 0, last_error = null,
    next_attempt_at = case
      when clock_timestamp() < asked.omitted_at + $7 * interval '1 second' then asked.omitted_at + $7 * interval '1 second'
      else 'infinity'
    end
  from asked
  where r.source_id = $1 and r.reference = $2 and asked.omitted_at is not null and $5 is not null
), freed as (
  delete from mirror.quarantine
  where source_id = $1 and reference = $2 and inbox_seq is null and (reason = $4 or $5 is null)
    and exists (select from asked)
), compared as (
  -- A verification would not find any more what this read has repaired.
  update mirror.period_requests r set differed = r.differed + 1, examples = (examples || $2)[:20]
  from mirror.orders o
  where $6::boolean and r.source_id = $1 and r.kind = 'verification' and r.state in ('requested', 'running')
    and o.source_id = $1 and o.reference = $2 and o.version >= r.since and o.version < r.until
)
-- The proof that had missed the claim is withdrawn, unless that has happened since the request: what is proved now was
-- read after the event.
select mirror.withdraw_proof($1, claim_version, 'late_event', $2, 'refetch',
  'An event brought the change late, and a single read confirmed it.')
from asked where mirror.same_instant(claim_version, $5) and not exists (
  select from mirror.coverage_breaches b
  where b.source_id = $1 and b.found_at >= $3::timestamptz and b.since <= claim_version and b.until > claim_version)`;

/**
 * Fulfils or abandons the request; one that was repeated meanwhile stays. Removes what its failures left in quarantine,
 * counts a difference in the verifications of its time, and withdraws the proof that a confirmed late event
 * contradicts.
 */
export async function completeRefetch(
  pool: Pool,
  end: {
    sourceId: string;
    refetch: Refetch;
    /** The version that the read showed; undefined if there is no such order. */
    shown: Instant | undefined;
    differed: boolean;
    marginSeconds: number;
  },
): Promise<void> {
  const { sourceId, refetch, shown = null, differed, marginSeconds } = end;
  const { reference, requestedAt } = refetch;
  const values = [sourceId, reference, requestedAt, REASON, shown, differed, marginSeconds];
  await pool.query(COMPLETION, values);
}

/**
 * Counts a read that could not fulfil the request; the next one follows in `waitMs`. An order that was missing stays an
 * exception where an answer that shows no such order counts for nothing: no read has shown it meanwhile.
 */
export async function postponeRefetch(
  pool: Pool,
  postponed: {
    sourceId: string;
    refetch: Refetch;
    /** As in `completeRefetch`. */
    shown: Instant | undefined;
    waitMs: number;
    missedAt: Instant | null;
  },
): Promise<void> {
  const { sourceId, refetch, shown = null, waitMs, missedAt } = postponed;
  await pool.query(
    `update mirror.refetches set attempts = attempts + 1, failures = 0, last_error = null, missed_at = $5::bigint,
       unconfirmed = unconfirmed or missed_at is not null and $5 is null and $6::bigint is null,
       next_attempt_at = clock_timestamp() + $4 * interval '1 millisecond'
     where source_id = $1 and reference = $2 and requested_at = $3::timestamptz`,
    [sourceId, refetch.reference, refetch.requestedAt, waitMs, missedAt, shown],
  );
}

/** After so many failures in a row, about eight minutes at the default interval, an order is in quarantine. */
const FAILURES_MAX = 5;

/**
 * Counts a failed read, unless its request was repeated meanwhile: the next one waits twice as long each time, and six
 * hours once the order is in quarantine. There it is shown once per request, even if a person dismisses it. Resolves
 * with whether this failure has led to that.
 */
export async function noteRefetchFailure(
  pool: Pool,
  failure: { sourceId: string; refetch: Refetch; error: string; firstWaitMs: number },
): Promise<boolean> {
  const { sourceId, refetch, error, firstWaitMs } = failure;
  const { rows } = await pool.query<{ failures: number }>(
    `with failed as (
       update mirror.refetches as request set
         attempts = attempts + 1, failures = failures + 1, last_error = $3,
         next_attempt_at = clock_timestamp() + case
           when failures + 1 < ${FAILURES_MAX} then $4 * 2 ^ failures * interval '1 millisecond' else interval '6 hours'
         end
       where source_id = $1 and reference = $2 and requested_at = $5::timestamptz
       returning source_id, reference, failures, last_error, requested_at
     ), quarantined as (
       insert into mirror.quarantine (source_id, via, reference, reason, detail)
       select source_id, 'refetch', reference, '${REASON}', last_error from failed
       where failures >= ${FAILURES_MAX} and not exists (
         select from mirror.quarantine q
         where q.source_id = failed.source_id and q.reference = failed.reference and q.reason = '${REASON}'
           and (q.state = 'open' or q.quarantined_at >= failed.requested_at))
     )
     select failures from failed`,
    [sourceId, refetch.reference, error, firstWaitMs, refetch.requestedAt],
  );
  return rows[0]?.failures === FAILURES_MAX;
}

/** Makes due now the single reads of the orders that a proof excludes. What they are read for stays recorded. */
export async function retryExceptionsNow(pool: Pool, sourceId: string): Promise<number> {
  const { rowCount } = await pool.query(
    `update mirror.refetches r set next_attempt_at = clock_timestamp()
     from mirror.exceptions e
     where r.source_id = $1 and e.source_id = r.source_id and e.reference = r.reference`,
    [sourceId],
  );
  return rowCount ?? 0;
}
