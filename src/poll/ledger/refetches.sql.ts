import type { Instant } from "../../domain/order/instant.ts";
import type { Pool, Queryable } from "../../database/database.ts";

/** A request to read one order again. */
export interface Refetch {
  readonly reference: string;
  readonly reason: string;
  /** The database's text of the request time; identifies this request. */
  readonly requestedAt: string;
}

/** The quarantine reason for an order whose single read keeps failing. */
const REASON = "unreadable_singly";

/** An existing request is sufficient: only record what the proof excludes. */
const NOTE_UNCONFIRMED = `on conflict (source_id, reference) do update set unconfirmed = true
  where not refetches.unconfirmed`;
const UNCONFIRMED = "claimed, and not shown by a read";

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

/** Requests re-reads of the orders of a source with a claim that no read has shown, those that meet a condition. */
export const insertUnconfirmed = (source: string, condition: string) =>
  `insert into mirror.refetches (source_id, reference, reason, unconfirmed)
       select source_id, reference, '${UNCONFIRMED}', true from mirror.orders
       where source_id = ${source} and not settled and gone_at is null and ${condition}
       order by reference ${NOTE_UNCONFIRMED}`;

/**
 * Requests re-reads of orders of which a read showed nothing, or an older state than the mirror has, but was too early
 * to refute that state.
 */
export async function requestUnconfirmed(
  client: Queryable,
  { sourceId, references }: { sourceId: string; references: readonly string[] },
): Promise<void> {
  if (references.length === 0) return;
  await client.query(
    `insert into mirror.refetches (source_id, reference, reason, unconfirmed)
     select $1, reference, '${UNCONFIRMED}', true from (select distinct unnest($2::text[]) as reference) shown
     order by reference ${NOTE_UNCONFIRMED}`,
    [sourceId, references],
  );
}

/** At most `limit` due requests, in the order in which they became due: failing ones come after those that waited. */
export async function takeRefetches(
  pool: Pool,
  { sourceId, limit }: { sourceId: string; limit: number },
): Promise<Refetch[]> {
  const { rows } = await pool.query<Refetch>(
    `select reference, reason, requested_at::text as "requestedAt" from mirror.refetches
     where source_id = $1 and next_attempt_at <= clock_timestamp() order by next_attempt_at, reference limit $2`,
    [sourceId, limit],
  );
  return rows;
}

/**
 * Fulfils or abandons the request; one that was repeated meanwhile stays. Removes what its failures left in quarantine.
 * If the request was to confirm a late event and the read `shown` has exactly that version, the proof that had missed
 * it is withdrawn.
 */
export async function completeRefetch(
  pool: Pool,
  { sourceId, refetch, shown }: { sourceId: string; refetch: Refetch; shown: Instant | undefined },
): Promise<void> {
  await pool.query(
    `with done as (
       delete from mirror.refetches
       where source_id = $1 and reference = $2 and requested_at = $3::timestamptz returning claim_version
     ), freed as (
       delete from mirror.quarantine
       where source_id = $1 and reference = $2 and reason = $4 and state = 'open' and exists (select from done)
     )
     select mirror.withdraw_proof($1, claim_version, 'late_event', $2, 'refetch',
       'An event brought the change late, and a single read confirmed it.')
     from done where claim_version = $5::bigint`,
    [sourceId, refetch.reference, refetch.requestedAt, REASON, shown ?? null],
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

/** How long to wait after failures in a row: twice as long each time, and much longer once it is in quarantine. */
export interface RefetchPatience {
  readonly firstWaitMs: number;
  /** After this many failures it is in quarantine. */
  readonly failuresMax: number;
  readonly seldomMs: number;
}

/**
 * Counts a failed read of a request or, for `reason`, of a comparison. After several in a row the order is shown in
 * quarantine, once per request, even if a person dismisses it there. Resolves with the failures in a row.
 */
export async function noteRefetchFailure(
  pool: Pool,
  failure: {
    sourceId: string;
    reference: string;
    reason: string;
    error: string;
    patience: RefetchPatience;
  },
): Promise<number> {
  const { firstWaitMs, failuresMax, seldomMs } = failure.patience;
  const { rows } = await pool.query<{ failures: number }>(
    `with failed as (
       insert into mirror.refetches as request
         (source_id, reference, reason, attempts, failures, last_error, next_attempt_at)
       values ($1, $2, $3, 1, 1, $4, clock_timestamp() + $5 * interval '1 millisecond')
       on conflict (source_id, reference) do update set
         attempts = request.attempts + 1, failures = request.failures + 1, last_error = excluded.last_error,
         next_attempt_at = clock_timestamp() + interval '1 millisecond' * case
           when request.failures + 1 < $6 then $5 * 2 ^ request.failures else $7
         end
       returning source_id, reference, failures, last_error, requested_at
     ), quarantined as (
       insert into mirror.quarantine (source_id, via, reference, reason, detail)
       select source_id, 'refetch', reference, $8, last_error from failed
       where failures >= $6 and not exists (
         select from mirror.quarantine q
         where q.source_id = failed.source_id and q.reference = failed.reference and q.reason = $8
           and (q.state = 'open' or q.quarantined_at >= failed.requested_at))
     )
     select failures from failed`,
    [
      failure.sourceId,
      failure.reference,
      failure.reason,
      failure.error,
      firstWaitMs,
      failuresMax,
      seldomMs,
      REASON,
    ],
  );
  return rows[0]?.failures ?? 0;
}

/** Orders whose single read failed and that must not be requested again yet. */
export async function readResting(
  pool: Pool,
  { sourceId, references }: { sourceId: string; references: readonly string[] },
): Promise<Set<string>> {
  const { rows } = await pool.query<{ reference: string }>(
    `select reference from mirror.refetches
     where source_id = $1 and reference = any ($2::text[]) and failures > 0 and next_attempt_at > clock_timestamp()`,
    [sourceId, references],
  );
  return new Set(rows.map(({ reference }) => reference));
}

/** An order whose single read failed more than once in a row. */
export interface FailingRead {
  readonly sourceId: string;
  readonly reference: string;
  readonly failures: number;
  readonly lastError: string;
}

const FAILING_MAX = 200;

/** The most frequent failures first, at most 200. */
export async function readFailing(pool: Pool): Promise<FailingRead[]> {
  const { rows } = await pool.query<FailingRead>(
    `select source_id as "sourceId", reference, failures, last_error as "lastError" from mirror.refetches
     where failures > 1 order by failures desc, source_id, reference limit $1`,
    [FAILING_MAX],
  );
  return rows;
}

/**
 * Orders of a comparison's period that single reads have corrected since it was requested: they precede it in each
 * cycle, and would otherwise hide differences from it.
 */
export async function readCorrected(
  pool: Pool,
  requestId: bigint,
): Promise<{ reference: string; verdict: "corrected" | "gone" }[]> {
  const { rows } = await pool.query<{ reference: string; verdict: "corrected" | "gone" }>(
    `select distinct c.reference, c.verdict
     from mirror.period_requests r
     join mirror.changes c on c.source_id = r.source_id and c.changed_at >= r.requested_at
       and c.via = 'refetch' and c.verdict in ('corrected', 'gone')
     join mirror.orders o on o.source_id = c.source_id and o.reference = c.reference
     where r.request_id = $1 and o.version >= r.since and o.version < r.until
     order by c.reference`,
    [requestId],
  );
  return rows;
}
