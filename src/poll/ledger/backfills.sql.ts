import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Pool, Queryable } from "../../database/database.ts";
import { inTransaction } from "../../database/transaction.ts";
import { HELD, leaseValues, makeLeaseLostError } from "../../database/leases.sql.ts";
import type { Lease } from "../../database/leases.sql.ts";
import { lockPollState } from "./coverage.sql.ts";

/** A period of updatedAt that a person asked to have read. */
export interface Backfill extends Window {
  readonly backfillId: bigint;
  readonly sourceId: string;
  readonly state: "requested" | "running" | "done" | "failed" | "cancelled";
  /** From here to `until` everything was read. */
  readonly readDownTo: Instant;
  /** Windows in which orders may be missing. */
  readonly unproved: number;
  readonly requests: number;
  readonly orders: number;
  readonly lastError: string | null;
  /** Since it was begun, until it ended; 0 before. */
  readonly elapsedMs: number;
  /** Start of what the mirror holds whole; null while the source was never polled. */
  readonly historySince: Instant | null;
}

interface BackfillRow {
  readonly backfill_id: string;
  readonly source_id: string;
  readonly since: string;
  readonly until: string;
  readonly state: Backfill["state"];
  readonly read_down_to: string;
  readonly unproved: number;
  readonly requests: string;
  readonly orders: string;
  readonly last_error: string | null;
  readonly elapsed_ms: number;
  readonly history_since: string | null;
}

const SELECT = `
  select b.*, poll.history_since,
    coalesce(extract(epoch from coalesce(ended_at, clock_timestamp()) - started_at) * 1000, 0)::float8 as elapsed_ms
  from mirror.backfills b left join mirror.poll_state poll using (source_id)`;

function toBackfill(row: BackfillRow): Backfill {
  return {
    backfillId: BigInt(row.backfill_id),
    sourceId: row.source_id,
    since: BigInt(row.since),
    until: BigInt(row.until),
    state: row.state,
    readDownTo: BigInt(row.read_down_to),
    unproved: row.unproved,
    requests: Number(row.requests),
    orders: Number(row.orders),
    lastError: row.last_error,
    elapsedMs: row.elapsed_ms,
    historySince: row.history_since === null ? null : BigInt(row.history_since),
  };
}

/** Asks for [since, until) to be read; resolves with the number of the request. */
export async function requestBackfill(
  pool: Pool,
  { sourceId, since, until }: Window & { sourceId: string },
): Promise<bigint> {
  const { rows } = await pool.query<{ backfill_id: string }>(
    `insert into mirror.backfills (source_id, since, until, read_down_to)
     values ($1, $2::bigint, $3::bigint, $3::bigint) returning backfill_id`,
    [sourceId, since, until],
  );
  return BigInt(rows[0]?.backfill_id ?? 0);
}

/** Undefined when there is none of that number. */
export async function readBackfill(pool: Pool, backfillId: bigint): Promise<Backfill | undefined> {
  const { rows } = await pool.query<BackfillRow>(`${SELECT} where backfill_id = $1`, [backfillId]);
  return rows[0] && toBackfill(rows[0]);
}

/** The one to go on with: the oldest that has not ended. */
export async function readOpenBackfill(pool: Pool, sourceId: string): Promise<Backfill | undefined> {
  const { rows } = await pool.query<BackfillRow>(
    `${SELECT} where source_id = $1 and state in ('requested', 'running') order by backfill_id limit 1`,
    [sourceId],
  );
  return rows[0] && toBackfill(rows[0]);
}

/** Begins a request that is still `requested`, to be read up to `until` (exclusive) only. Throws LeaseLostError. */
export async function startBackfill(
  pool: Pool,
  lease: Lease,
  { backfillId, until }: { backfillId: bigint; until: Instant },
): Promise<void> {
  await underLease(
    pool,
    lease,
    `update mirror.backfills set state = 'running', started_at = clock_timestamp(),
       until = $5::bigint, read_down_to = $5::bigint
     from held where backfill_id = $4 and state = 'requested'`,
    [backfillId, until],
  );
}

/**
 * Notes that the backfill has read down to `readDownTo`, and ends it where that is its start. The source's
 * history_since goes down to the start of the unbroken run of proved windows that holds it. Throws LeaseLostError.
 */
export async function advanceBackfill(
  pool: Pool,
  lease: Lease,
  step: {
    sourceId: string;
    backfillId: bigint;
    readDownTo: Instant;
    proved: boolean;
    requests: number;
    orders: number;
  },
): Promise<void> {
  await inTransaction(pool, async (client) => {
    // A proof that is taken back meanwhile must not count for the history.
    await lockPollState(client, lease, step.sourceId);
    await underLease(
      client,
      lease,
      `update mirror.backfills set read_down_to = $5::bigint, unproved = unproved + $6, requests = requests + $7,
       orders = orders + $8, failures = 0,
       state = case when $5::bigint <= since then 'done' else state end,
       ended_at = case when $5::bigint <= since then clock_timestamp() end
     from held where backfill_id = $4 and state = 'running'`,
      [step.backfillId, step.readDownTo, step.proved ? 0 : 1, step.requests, step.orders],
      `, asked as (
       select source_id, since as requested from mirror.backfills where backfill_id = $4
     ), run as (
       select unnest(range_agg(int8range(since, until))) as span
       from mirror.coverage join asked using (source_id) where proved and until >= asked.requested
     ), extended as (
       update mirror.poll_state set history_since = lower(span)
       from held, asked, run
       where poll_state.source_id = asked.source_id and lower(span) < history_since and upper(span) >= history_since
     )`,
    );
  });
}

/** Counts a failure; after `failuresMax` in a row the backfill has failed. Throws LeaseLostError. */
export async function noteBackfillFailure(
  pool: Pool,
  lease: Lease,
  failure: { backfillId: bigint; error: string; failuresMax: number },
): Promise<void> {
  await underLease(
    pool,
    lease,
    `update mirror.backfills set failures = failures + 1, last_error = $5,
       state = case when failures + 1 >= $6 then 'failed' else state end,
       ended_at = case when failures + 1 >= $6 then clock_timestamp() end
     from held where backfill_id = $4 and state = 'running'`,
    [failure.backfillId, failure.error, failure.failuresMax],
  );
}

/** Calls a backfill off that has not ended; false when it has, or there is none. What was read stays. */
export async function cancelBackfill(pool: Pool, backfillId: bigint): Promise<boolean> {
  const result = await pool.query(
    `update mirror.backfills set state = 'cancelled', ended_at = clock_timestamp()
     where backfill_id = $1 and state in ('requested', 'running')`,
    [backfillId],
  );
  return result.rowCount === 1;
}

/** Runs an update of mirror.backfills that reads the CTE `held`; its values begin at $4. */
async function underLease(
  pool: Queryable,
  lease: Lease,
  update: string,
  values: readonly unknown[],
  more = "",
): Promise<void> {
  const { rows } = await pool.query<{ held: boolean }>(
    `with ${HELD}${more}, changed as (${update} returning 1)
     select exists (select from held) as held, (select count(*) from changed) as changed`,
    [...leaseValues(lease), ...values],
  );
  if (rows[0]?.held !== true) throw makeLeaseLostError(lease);
}
