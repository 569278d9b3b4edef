import { queryInstants, type Pool, type Queryable } from "../database/database.ts";
import { writeUnderLease, type Lease } from "../database/leases.sql.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Window } from "../domain/window/window.ts";
import type { WindowRead } from "./sweeps/windows.ts";

/** A backfill reads a period; a verification compares it with the mirror. */
export type RequestKind = "backfill" | "verification";

/** A requested read or comparison of a period of updatedAt, with its progress. */
export interface PeriodRequest extends Window {
  readonly requestId: bigint;
  readonly kind: RequestKind;
  readonly sourceId: string;
  readonly state: "requested" | "running" | "done" | "failed" | "cancelled";
  /** Everything from here to `until` was read. */
  readonly readDownTo: Instant;
  /** Windows in which orders may be missing. */
  readonly unproved: number;
  readonly requests: number;
  /** Orders, or states of orders, that were read. */
  readonly orders: number;
  /** Orders that the mirror did not have, had in another state, or that the provider does not have. */
  readonly differed: number;
  /** Orders whose single read failed: whether they differ is unknown. */
  readonly unreadable: number;
  /** References of the first orders found to differ. */
  readonly examples: readonly string[];
  readonly lastError: string | null;
  /** From its start until its end; 0 before. */
  readonly elapsedMs: number;
  /** Start of the period that the mirror has completely; null while the source was never polled. */
  readonly historySince: Instant | null;
}

const EXAMPLES_MAX = 20;

const SELECT = `
  select request_id as "requestId", kind, source_id as "sourceId", since, until, state,
    read_down_to as "readDownTo", unproved, requests::float8, orders::float8, differed::float8, unreadable::float8,
    examples,
    r.last_error as "lastError", poll.history_since as "historySince",
    coalesce(extract(epoch from coalesce(ended_at, clock_timestamp()) - started_at) * 1000, 0)::float8 as "elapsedMs"
  from mirror.period_requests r left join mirror.poll_state poll using (source_id)`;

/** Requests a read or a comparison of [since, until); resolves with the number of the request. */
export async function requestPeriod(
  pool: Pool,
  { sourceId, kind, since, until }: Window & { kind: RequestKind; sourceId: string },
): Promise<bigint> {
  const [created] = await queryInstants<{ id: bigint }>(
    pool,
    `insert into mirror.period_requests (source_id, kind, since, until, read_down_to)
     values ($1, $2, $3::bigint, $4::bigint, $4::bigint) returning request_id as id`,
    [sourceId, kind, since, until],
  );
  return created?.id ?? 0n;
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
  const [request] = await queryInstants<PeriodRequest>(pool, `${SELECT} where request_id = $1`, [requestId]);
  return request;
}

/** The open requests of which a part is left to read: those that failed least, then the oldest, come first. */
export async function readOpenRequests(pool: Pool, sourceId: string): Promise<PeriodRequest[]> {
  return queryInstants<PeriodRequest>(
    pool,
    `${SELECT} where source_id = $1 and state in ('requested', 'running') and read_down_to > since
     order by failures, request_id limit 20`,
    [sourceId],
  );
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

/** Records that everything was read down to the beginning of a window, with the differences. Throws LeaseLostError. */
export async function advanceRequest(
  client: Queryable,
  lease: Lease,
  { requestId, read, proved }: { requestId: bigint; read: WindowRead; proved: boolean },
): Promise<void> {
  const { window, requests, orders, differed } = read;
  await updateUnderLease(client, lease, {
    set: `read_down_to = $5::bigint, unproved = unproved + $6, requests = requests + $7, orders = orders + $8,
      differed = differed + cardinality($9::text[]), examples = (examples || $9)[:${EXAMPLES_MAX}], failures = 0,
      last_error = null`,
    where: "state = 'running'",
    values: [requestId, window.since, proved ? 0 : 1, requests, orders, differed],
  });
}

/**
 * Requests single reads for a verification: of the orders that the mirror has in `window` and the pages did not show,
 * and of those that it dates after `present`, which no list shows. A read that has failed is tried again at once.
 */
export async function requestUnlisted(
  client: Queryable,
  query: {
    sourceId: string;
    requestId: bigint;
    window: Window;
    listed: readonly string[];
    present: Instant;
  },
): Promise<void> {
  const { sourceId, requestId, window, listed, present } = query;
  await client.query(
    `insert into mirror.refetches (source_id, reference, reason, request_id)
     select source_id, reference, 'not listed', $2::bigint from mirror.orders o
     where o.source_id = $1 and o.gone_at is null
       and (o.version >= $3::bigint and o.version < $4::bigint and o.reference not in (select unnest($5::text[]))
         or o.version > $6::bigint)
     order by reference
     on conflict (source_id, reference) do update set request_id = excluded.request_id, attempts = 0,
       next_attempt_at = least(refetches.next_attempt_at, clock_timestamp())`,
    [sourceId, requestId, window.since, window.until, listed, present],
  );
}

/**
 * The single reads that a request waits for: its own, and of a verification those of orders of its period that another
 * one asked for as well, since their row names the last request alone.
 */
const AWAITED = `select from mirror.refetches f
  where f.source_id = $4 and (f.request_id = r.request_id or r.kind = 'verification' and f.request_id is not null and exists (
    select from mirror.orders o
    where o.source_id = $4 and o.reference = f.reference and o.version >= r.since and o.version < r.until))`;

/**
 * Ends the requests that were read to their end: when nothing that they walked awaits its head sweep, and every single
 * read that they asked for was tried, twice if it found no such order. An order whose read did not show its state
 * counts as unreadable.
 */
export async function finishRequests(pool: Pool, lease: Lease, sourceId: string): Promise<void> {
  await writeUnderLease(
    pool,
    lease,
    `finished as (
       update mirror.period_requests r set state = 'done', ended_at = clock_timestamp(),
         unreadable = (select count(*) from (${AWAITED}) left_over)
       from held
       where r.source_id = $4 and r.state = 'running' and r.read_down_to <= r.since
         and not exists (select from mirror.coverage c
           where c.source_id = $4 and c.awaits_head and c.sweep in ('verify', 'backfill')
             and c.since >= r.since and c.until <= r.until)
         and not exists (${AWAITED} and (f.attempts = 0 or f.missed_at is not null))
     )`,
    [sourceId],
  );
}

/**
 * Counts a failure; after `failuresMax` in a row, or at once if that is 0, the request fails. Throws LeaseLostError.
 */
export async function noteRequestFailure(
  pool: Pool,
  lease: Lease,
  failure: { requestId: bigint; error: string; failuresMax: number },
): Promise<void> {
  await updateUnderLease(pool, lease, {
    set: `failures = failures + 1, last_error = $5, state = case when failures + 1 >= $6 then 'failed' else state end,
      ended_at = case when failures + 1 >= $6 then clock_timestamp() end`,
    where: "state in ('requested', 'running')",
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

/** Changes one request, $4, under the lease; further values start at $5. */
async function updateUnderLease(
  client: Queryable,
  lease: Lease,
  change: { set: string; where: string; values: readonly unknown[] },
): Promise<void> {
  await writeUnderLease(
    client,
    lease,
    `changed as (
       update mirror.period_requests set ${change.set} from held where request_id = $4 and ${change.where}
     )`,
    change.values,
  );
}
