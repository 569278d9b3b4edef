import { toInstant } from "../../database/columns.ts";
import type { Pool, Queryable } from "../../database/database.ts";
import { writeUnderLease } from "../../database/leases.sql.ts";
import type { Lease } from "../../database/leases.sql.ts";
import { inTransaction } from "../../database/transaction.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import { lockPollState } from "./coverage.sql.ts";

/** Differences between the mirror and the provider, by kind. */
export interface Findings {
  /** Orders that the mirror did not have. */
  readonly missing: number;
  /** Orders that the mirror had in an older state. */
  readonly stale: number;
  /** Orders that the mirror had in a state that the provider does not show, with a later updatedAt. */
  readonly contradicted: number;
  /** Orders with the same updatedAt and different content. */
  readonly differing: number;
  /** Orders that the provider does not have. */
  readonly extra: number;
  /** Orders whose single read failed: whether they differ is unknown. */
  readonly unreadable: number;
}

export const NO_FINDINGS: Findings = {
  missing: 0,
  stale: 0,
  contradicted: 0,
  differing: 0,
  extra: 0,
  unreadable: 0,
};

/** A backfill reads a period; a verification compares it with the mirror. */
export type RequestKind = "backfill" | "verification";

/** A requested read or comparison of a period of updatedAt, with its progress. */
export interface PeriodRequest extends Window, Findings {
  readonly requestId: bigint;
  readonly kind: RequestKind;
  readonly sourceId: string;
  /** How many orders are read one by one; null: all of the period are listed. */
  readonly sample: number | null;
  /** False: differences are only reported. */
  readonly repairs: boolean;
  readonly state: "requested" | "running" | "done" | "failed" | "cancelled";
  /** Everything from here to `until` was read. */
  readonly readDownTo: Instant;
  /** Windows in which orders may be missing. */
  readonly unproved: number;
  readonly requests: number;
  /** Orders, or states of orders, that were read. */
  readonly orders: number;
  /** References of the first orders found to differ. */
  readonly examples: readonly string[];
  readonly lastError: string | null;
  /** From its start until its end; 0 before. */
  readonly elapsedMs: number;
  /** Start of the period that the mirror has completely; null while the source was never polled. */
  readonly historySince: Instant | null;
}

type InstantColumn = "requestId" | "since" | "until" | "readDownTo" | "historySince";
type Row = Omit<PeriodRequest, InstantColumn> &
  Record<Exclude<InstantColumn, "historySince">, string> & {
    readonly historySince: string | null;
  };

const EXAMPLES_MAX = 20;

const SELECT = `
  select request_id as "requestId", kind, source_id as "sourceId", since, until, sample, repairs, state,
    read_down_to as "readDownTo", unproved, requests::float8, orders::float8, missing::float8, stale::float8,
    contradicted::float8, differing::float8, extra::float8, unreadable::float8, examples,
    r.last_error as "lastError", poll.history_since as "historySince",
    coalesce(extract(epoch from coalesce(ended_at, clock_timestamp()) - started_at) * 1000, 0)::float8 as "elapsedMs"
  from mirror.period_requests r left join mirror.poll_state poll using (source_id)`;

function toRequest(row: Row): PeriodRequest {
  return {
    ...row,
    requestId: BigInt(row.requestId),
    since: BigInt(row.since),
    until: BigInt(row.until),
    readDownTo: BigInt(row.readDownTo),
    historySince: toInstant(row.historySince),
  };
}

/** Requests a read or a comparison of [since, until); resolves with the number of the request. */
export async function requestPeriod(
  pool: Pool,
  request: Window & { kind: RequestKind; sourceId: string; sample?: number | null; repairs?: boolean },
): Promise<bigint> {
  const { rows } = await pool.query<{ id: string }>(
    `insert into mirror.period_requests (source_id, kind, since, until, read_down_to, sample, repairs)
     values ($1, $2, $3::bigint, $4::bigint, $4::bigint, $5, $6) returning request_id as id`,
    [
      request.sourceId,
      request.kind,
      request.since,
      request.until,
      request.sample ?? null,
      request.repairs ?? true,
    ],
  );
  return BigInt(rows[0]?.id ?? 0);
}

/**
 * Requests a comparison of `window` if the nightly comparison is due: at night (1 to 5 o'clock UTC) 20 hours after the
 * last one, at any time after 36 hours. The first one is due that long after the source was configured.
 */
export async function requestNightly(
  pool: Pool,
  { sourceId, window }: { sourceId: string; window: Window },
): Promise<void> {
  await pool.query(
    `insert into mirror.period_requests (source_id, kind, since, until, read_down_to, nightly)
     select $1, 'verification', $2::bigint, $3::bigint, $3::bigint, true
     from (
       select clock_timestamp() - greatest(max(r.requested_at), s.created_at) as rest
       from mirror.sources s left join mirror.period_requests r on r.source_id = s.source_id and r.nightly
       where s.source_id = $1 group by s.created_at
     ) since_last
     where rest > interval '36 hours'
       or (rest > interval '20 hours' and extract(hour from clock_timestamp() at time zone 'UTC') between 1 and 4)`,
    [sourceId, window.since, window.until],
  );
}

/** Undefined if there is no request with that number. */
export async function readRequest(pool: Pool, requestId: bigint): Promise<PeriodRequest | undefined> {
  const { rows } = await pool.query<Row>(`${SELECT} where request_id = $1`, [requestId]);
  return rows[0] && toRequest(rows[0]);
}

/**
 * The request to continue: the oldest open one, either of those that list (`sampled` false) or of those that take a
 * sample.
 */
export async function readOpenRequest(
  pool: Pool,
  { sourceId, kind, sampled }: { sourceId: string; kind: RequestKind; sampled: boolean },
): Promise<PeriodRequest | undefined> {
  const { rows } = await pool.query<Row>(
    `${SELECT} where source_id = $1 and kind = $2 and (sample is not null) = $3 and state in ('requested', 'running')
     order by request_id limit 1`,
    [sourceId, kind, sampled],
  );
  return rows[0] && toRequest(rows[0]);
}

/** Starts a request that is still `requested`, to be read only up to `until` (exclusive). Throws LeaseLostError. */
export async function startRequest(
  pool: Pool,
  lease: Lease,
  { requestId, until }: { requestId: bigint; until: Instant },
): Promise<void> {
  await updateUnderLease(pool, lease, {
    set: "state = 'running', started_at = clock_timestamp(), until = $5::bigint, read_down_to = $5::bigint",
    where: "state = 'requested'",
    values: [requestId, until],
  });
}

/**
 * Records that everything was read down to `readDownTo`, with the findings; the request ends if `done`. After a
 * backfill the source's history_since moves down to the start of the contiguous run of proved windows that contains it.
 * Throws LeaseLostError.
 */
export async function advanceRequest(
  pool: Pool,
  lease: Lease,
  step: {
    sourceId: string;
    requestId: bigint;
    readDownTo: Instant;
    proved: boolean;
    requests: number;
    orders: number;
    /** Place of the last order compared, for a sample. */
    sampledThrough?: string | undefined;
    findings?: Findings;
    references?: readonly string[];
    done: boolean;
  },
): Promise<void> {
  const { missing, stale, contradicted, differing, extra, unreadable } = step.findings ?? NO_FINDINGS;
  await inTransaction(pool, async (client) => {
    // A proof that is withdrawn meanwhile must not count for the history.
    await lockPollState(client, lease, step.sourceId);
    await updateUnderLease(client, lease, {
      set: `read_down_to = $5::bigint, unproved = unproved + $6, requests = requests + $7, orders = orders + $8,
        missing = missing + $9, stale = stale + $10, contradicted = contradicted + $11, differing = differing + $12,
        extra = extra + $13, unreadable = unreadable + $14, examples = (examples || $15::text[])[:${EXAMPLES_MAX}],
        sampled_through = coalesce($17, sampled_through),
        failures = 0, state = case when $16 then 'done' else state end,
        ended_at = case when $16 then clock_timestamp() end`,
      where: "state = 'running'",
      values: [
        step.requestId,
        step.readDownTo,
        step.proved ? 0 : 1,
        step.requests,
        step.orders,
        missing,
        stale,
        contradicted,
        differing,
        extra,
        unreadable,
        step.references ?? [],
        step.done,
        step.sampledThrough ?? null,
      ],
      before: `asked as (
         select source_id, since from mirror.period_requests where request_id = $4 and kind = 'backfill'
       ), run as (
         select unnest(range_agg(int8range(c.since, c.until))) as span
         from mirror.coverage c join asked using (source_id) where c.proved and c.until >= asked.since
       ), extended as (
         update mirror.poll_state set history_since = lower(span)
         from held, asked, run
         where poll_state.source_id = asked.source_id and lower(span) < history_since and upper(span) >= history_since
       ),`,
    });
  });
}

/** Counts a failure; after `failuresMax` in a row the request fails. Throws LeaseLostError. */
export async function noteRequestFailure(
  pool: Pool,
  lease: Lease,
  failure: { requestId: bigint; error: string; failuresMax: number },
): Promise<void> {
  await updateUnderLease(pool, lease, {
    set: `failures = failures + 1, last_error = $5, state = case when failures + 1 >= $6 then 'failed' else state end,
      ended_at = case when failures + 1 >= $6 then clock_timestamp() end`,
    where: "state = 'running'",
    values: [failure.requestId, failure.error, failure.failuresMax],
  });
}

/** Cancels a request; false if it has ended or does not exist. What was read stays. */
export async function cancelRequest(pool: Pool, requestId: bigint): Promise<boolean> {
  const result = await pool.query(
    `update mirror.period_requests set state = 'cancelled', ended_at = clock_timestamp()
     where request_id = $1 and state in ('requested', 'running')`,
    [requestId],
  );
  return result.rowCount === 1;
}

/** Changes one request, $4, under the lease; further values start at $5. `before`: more CTEs, which see `held`. */
async function updateUnderLease(
  client: Queryable,
  lease: Lease,
  change: { set: string; where: string; values: readonly unknown[]; before?: string },
): Promise<void> {
  await writeUnderLease(
    client,
    lease,
    `${change.before ?? ""} changed as (
       update mirror.period_requests set ${change.set} from held where request_id = $4 and ${change.where}
     )`,
    change.values,
  );
}
