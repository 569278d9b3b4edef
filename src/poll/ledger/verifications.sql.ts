import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Pool } from "../../database/database.ts";
import { HELD, leaseValues, makeLeaseLostError } from "../../database/leases.sql.ts";
import type { Lease } from "../../database/leases.sql.ts";

/** Differences between the mirror and the provider, by kind. */
export interface Findings {
  /** Orders that the mirror did not have. */
  readonly missing: number;
  /** Orders of which it had an older state. */
  readonly stale: number;
  /** Orders of which it had a state that the provider does not show, with a later updatedAt. */
  readonly contradicted: number;
  /** Orders with the same updatedAt and other content. */
  readonly differing: number;
  /** Orders that the provider does not have. */
  readonly extra: number;
  /** Orders that had to be read singly and could not be: nobody knows whether they differ. */
  readonly unreadable: number;
}

export interface Verification extends Window, Findings {
  readonly verificationId: bigint;
  readonly sourceId: string;
  /** How many orders are read one by one; null: all of the period are listed. */
  readonly sample: number | null;
  /** False: differences are only told. */
  readonly repairs: boolean;
  readonly state: "requested" | "running" | "done" | "failed";
  readonly readDownTo: Instant;
  readonly requests: number;
  /** Orders compared. */
  readonly orders: number;
  /** References of the first orders found to differ. */
  readonly examples: readonly string[];
  readonly lastError: string | null;
  /** Since it was begun, until it ended; 0 before. */
  readonly elapsedMs: number;
}

interface VerificationRow extends Omit<
  Verification,
  "verificationId" | "since" | "until" | "readDownTo" | "lastError"
> {
  readonly verificationId: string;
  readonly since: string;
  readonly until: string;
  readonly readDownTo: string;
  readonly lastError: string | null;
}

const EXAMPLES_MAX = 20;

const SELECT = `
  select verification_id as "verificationId", source_id as "sourceId", since, until, sample, repairs, state,
    read_down_to as "readDownTo", requests::float8, orders::float8, missing::float8, stale::float8,
    contradicted::float8, differing::float8, extra::float8, unreadable::float8, examples, last_error as "lastError",
    coalesce(extract(epoch from coalesce(ended_at, clock_timestamp()) - started_at) * 1000, 0)::float8 as "elapsedMs"
  from mirror.verifications`;

function toVerification(row: VerificationRow): Verification {
  return {
    ...row,
    verificationId: BigInt(row.verificationId),
    since: BigInt(row.since),
    until: BigInt(row.until),
    readDownTo: BigInt(row.readDownTo),
  };
}

/** Asks for [since, until) to be compared; resolves with the number of the request. */
export async function requestVerification(
  pool: Pool,
  request: Window & { sourceId: string; sample: number | null; repairs?: boolean },
): Promise<bigint> {
  const { rows } = await pool.query<{ id: string }>(
    `insert into mirror.verifications (source_id, since, until, read_down_to, sample, repairs)
     values ($1, $2::bigint, $3::bigint, $3::bigint, $4, $5) returning verification_id as id`,
    [request.sourceId, request.since, request.until, request.sample, request.repairs ?? true],
  );
  return BigInt(rows[0]?.id ?? 0);
}

/**
 * Asks for `window` to be compared if the nightly comparison is due: at night (1 to 5 o'clock UTC) 20 hours after the
 * last one, at any time after 36 hours. The first one is due that long after the source was configured.
 */
export async function requestNightly(
  pool: Pool,
  { sourceId, window }: { sourceId: string; window: Window },
): Promise<void> {
  await pool.query(
    `insert into mirror.verifications (source_id, since, until, read_down_to, nightly)
     select $1, $2::bigint, $3::bigint, $3::bigint, true
     from (
       select clock_timestamp() - greatest(max(v.requested_at), s.created_at) as rest
       from mirror.sources s left join mirror.verifications v on v.source_id = s.source_id and v.nightly
       where s.source_id = $1 group by s.created_at
     ) since_last
     where rest > interval '36 hours'
       or (rest > interval '20 hours' and extract(hour from clock_timestamp() at time zone 'UTC') between 1 and 4)`,
    [sourceId, window.since, window.until],
  );
}

/** Undefined when there is none of that number. */
export async function readVerification(pool: Pool, id: bigint): Promise<Verification | undefined> {
  const { rows } = await pool.query<VerificationRow>(`${SELECT} where verification_id = $1`, [id]);
  return rows[0] && toVerification(rows[0]);
}

/** The one to go on with, of those that list (`sampled` false) or of those that take a sample: the oldest open one. */
export async function readOpenVerification(
  pool: Pool,
  { sourceId, sampled }: { sourceId: string; sampled: boolean },
): Promise<Verification | undefined> {
  const { rows } = await pool.query<VerificationRow>(
    `${SELECT} where source_id = $1 and (sample is not null) = $2 and state in ('requested', 'running')
     order by verification_id limit 1`,
    [sourceId, sampled],
  );
  return rows[0] && toVerification(rows[0]);
}

/** Begins a request that is still `requested`, to be compared up to `until` (exclusive) only. Throws LeaseLostError. */
export async function startVerification(
  pool: Pool,
  lease: Lease,
  { verificationId, until }: { verificationId: bigint; until: Instant },
): Promise<void> {
  await updateUnderLease(pool, lease, {
    set: "state = 'running', started_at = clock_timestamp(), until = $5::bigint, read_down_to = $5::bigint",
    where: "state = 'requested'",
    values: [verificationId, until],
  });
}

/** Adds what a part of the comparison found; it has ended when `done`. Throws LeaseLostError. */
export async function advanceVerification(
  pool: Pool,
  lease: Lease,
  step: {
    verificationId: bigint;
    readDownTo: Instant;
    requests: number;
    orders: number;
    findings: Findings;
    references: readonly string[];
    done: boolean;
  },
): Promise<void> {
  const { missing, stale, contradicted, differing, extra, unreadable } = step.findings;
  await updateUnderLease(pool, lease, {
    set: `read_down_to = $5::bigint, requests = requests + $6, orders = orders + $7, missing = missing + $8,
      stale = stale + $9, differing = differing + $10, extra = extra + $11, unreadable = unreadable + $12,
      contradicted = contradicted + $15, failures = 0, examples = (examples || $13::text[])[:${EXAMPLES_MAX}],
      state = case when $14 then 'done' else state end, ended_at = case when $14 then clock_timestamp() end`,
    where: "state = 'running'",
    values: [
      step.verificationId,
      step.readDownTo,
      step.requests,
      step.orders,
      missing,
      stale,
      differing,
      extra,
      unreadable,
      step.references,
      step.done,
      contradicted,
    ],
  });
}

/** Counts a failure; after `failuresMax` in a row the comparison has failed. Throws LeaseLostError. */
export async function noteVerificationFailure(
  pool: Pool,
  lease: Lease,
  failure: { verificationId: bigint; error: string; failuresMax: number },
): Promise<void> {
  await updateUnderLease(pool, lease, {
    set: `failures = failures + 1, last_error = $5, state = case when failures + 1 >= $6 then 'failed' else state end,
      ended_at = case when failures + 1 >= $6 then clock_timestamp() end`,
    where: "state = 'running'",
    values: [failure.verificationId, failure.error, failure.failuresMax],
  });
}

/** Orders whose stored updatedAt lies in `window` and that are not among `listed`, at most `limit`. */
export async function readUnlisted(
  pool: Pool,
  query: { sourceId: string; window: Window; listed: readonly string[]; limit: number },
): Promise<string[]> {
  const { rows } = await pool.query<{ reference: string }>(
    `select o.reference from mirror.orders o
     left join unnest($4::text[]) as listed (reference) on listed.reference = o.reference
     where o.source_id = $1 and o.version >= $2::bigint and o.version < $3::bigint and o.gone_at is null and listed.reference is null
     order by o.version limit $5`,
    [query.sourceId, query.window.since, query.window.until, query.listed, query.limit],
  );
  return rows.map(({ reference }) => reference);
}

/** Orders of `window` in an order of chance that stays the same for a verification. */
export async function readSample(
  pool: Pool,
  query: { sourceId: string; window: Window; verificationId: bigint; offset: number; limit: number },
): Promise<string[]> {
  const { rows } = await pool.query<{ reference: string }>(
    `select reference from mirror.orders
     where source_id = $1 and version >= $2::bigint and version < $3::bigint and gone_at is null
     order by md5(reference || $4::text), reference offset $5 limit $6`,
    [query.sourceId, query.window.since, query.window.until, query.verificationId, query.offset, query.limit],
  );
  return rows.map(({ reference }) => reference);
}

/** Changes one verification, $4, under the lease; further values begin at $5. */
async function updateUnderLease(
  pool: Pool,
  lease: Lease,
  { set, where, values }: { set: string; where: string; values: readonly unknown[] },
): Promise<void> {
  const { rows } = await pool.query<{ held: boolean }>(
    `with ${HELD}, changed as (
       update mirror.verifications set ${set} from held where verification_id = $4 and ${where} returning 1
     )
     select exists (select from held) as held, (select count(*) from changed) as changed`,
    [...leaseValues(lease), ...values],
  );
  if (rows[0]?.held !== true) throw makeLeaseLostError(lease);
}
