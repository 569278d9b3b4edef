import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";

/** A request to read one order again. */
export interface Refetch {
  readonly reference: string;
  readonly reason: string;
  /** The database's text of the request time; identifies this request. */
  readonly requestedAt: string;
  /** Reads so far that failed, or came too early. */
  readonly attempts: number;
}

/** The quarantine reason for an order whose single read keeps failing. */
const REASON = "unreadable_singly";

/** Requests re-reads of orders. A waiting request starts again: the order must be read after this. */
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
 * A statement that requests re-reads of the orders whose references a query returns: a list has omitted them. A read is
 * decisive by now, even if it had been put off while a clock was wrong.
 */
export const insertUnlisted = (source: string, references: string) =>
  `insert into mirror.refetches (source_id, reference, reason, unconfirmed)
   select distinct ${source}, reference, 'not listed', true from (${references}) as omitted (reference)
   order by 2
   on conflict (source_id, reference) do update set unconfirmed = true, next_attempt_at = case
     when refetches.failures = 0 then least(refetches.next_attempt_at, clock_timestamp()) else refetches.next_attempt_at
   end
   returning reference`;

/** At most `limit` due requests, in the order in which they became due: failing ones come after those that waited. */
export async function takeRefetches(
  pool: Pool,
  { sourceId, limit }: { sourceId: string; limit: number },
): Promise<Refetch[]> {
  const { rows } = await pool.query<Refetch>(
    `select reference, reason, requested_at::text as "requestedAt", attempts from mirror.refetches
     where source_id = $1 and next_attempt_at <= clock_timestamp() order by next_attempt_at, reference limit $2`,
    [sourceId, limit],
  );
  return rows;
}

/**
 * Fulfils or abandons the request; one that was repeated meanwhile stays. Removes what its failures left in quarantine,
 * and counts a difference in the verifications of its time: they would not find any more what this read has repaired. If the
 * request was to confirm a late event and the read `shown` has exactly that version, the proof that had missed it is
 * withdrawn, unless that has happened since the request: what is proved now was read after the event.
 */
export async function completeRefetch(
  pool: Pool,
  query: { sourceId: string; refetch: Refetch; shown: Instant | undefined; differed: boolean },
): Promise<void> {
  const { sourceId, refetch, shown, differed } = query;
  await pool.query(
    `with done as (
       delete from mirror.refetches
       where source_id = $1 and reference = $2 and requested_at = $3::timestamptz returning claim_version
     ), freed as (
       delete from mirror.quarantine
       where source_id = $1 and reference = $2 and reason = $4 and state = 'open' and exists (select from done)
     ), compared as (
       update mirror.period_requests r set differed = r.differed + 1, examples = (examples || $2)[:20]
       from mirror.orders o
       where $6::boolean and r.source_id = $1 and r.kind = 'verification' and r.state in ('requested', 'running')
         and o.source_id = $1 and o.reference = $2 and o.version >= r.since and o.version < r.until
     )
     select mirror.withdraw_proof($1, claim_version, 'late_event', $2, 'refetch',
       'An event brought the change late, and a single read confirmed it.')
     from done where mirror.same_instant(claim_version, $5::bigint) and not exists (
       select from mirror.coverage_breaches b
       where b.source_id = $1 and b.found_at >= $3::timestamptz and b.since <= claim_version and b.until > claim_version)`,
    [sourceId, refetch.reference, refetch.requestedAt, REASON, shown ?? null, differed],
  );
}

/** Counts a read that came too early to fulfil the request; the next one follows in `waitMs`. */
export async function postponeRefetch(
  pool: Pool,
  { sourceId, refetch, waitMs }: { sourceId: string; refetch: Refetch; waitMs: number },
): Promise<void> {
  await pool.query(
    `update mirror.refetches set attempts = attempts + 1, failures = 0, last_error = null,
       next_attempt_at = clock_timestamp() + $4 * interval '1 millisecond'
     where source_id = $1 and reference = $2 and requested_at = $3::timestamptz`,
    [sourceId, refetch.reference, refetch.requestedAt, waitMs],
  );
}

/** After so many failures in a row, about eight minutes at the default interval, an order is in quarantine. */
const FAILURES_MAX = 5;

/**
 * Counts a failed read: the next one waits twice as long each time, and six hours once the order is in quarantine. There
 * it is shown once per request, even if a person dismisses it. Resolves with whether this failure has led to that.
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
       where source_id = $1 and reference = $2
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
    [sourceId, refetch.reference, error, firstWaitMs],
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
