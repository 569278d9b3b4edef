import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Margins } from "../../domain/window/lateness.ts";
import type { Pool, Queryable } from "../../database/database.ts";
import { HELD, leaseValues, makeLeaseLostError } from "../../database/leases.sql.ts";
import type { Lease } from "../../database/leases.sql.ts";
import { insertUnconfirmed } from "./refetches.sql.ts";
import { makeForgottenError, SAME_GROUND } from "./walks.sql.ts";

/** A window that was walked to its end. */
export interface WalkedWindow extends Window {
  readonly sourceId: string;
  readonly sweep: string;
  /**
   * Nothing in the window can be missing: the walk was certainly complete, and began so long after `until` that no
   * change could still appear in the window.
   */
  readonly proved: boolean;
  /** Moves the cursor of the fast sweep to `until`, if it is not there yet. */
  readonly movesCursor: boolean;
  /** The margins in force at the commit. */
  readonly margins: Margins;
  /** Provider-clock instant at which the first page was requested, a lower bound. */
  readonly begunAt: Instant;
  readonly requests: number;
  readonly orders: number;
  readonly durationMs: number;
  /** Its pages that the database has recorded: all but the last one. */
  readonly pagesBefore: number;
  /** A proof also requests the orders with a claim in the window that no read has shown: the walk would have shown it. */
  readonly confirmsClaims: boolean;
}

/** The cursor and the watermark after the commit. */
export interface CoverageProgress {
  readonly polledThrough: Instant;
  readonly safeThrough: Instant | undefined;
}

const COMMIT = `
with recorded as (
  insert into mirror.coverage (source_id, since, until, sweep, proved, fence, provider, server, settle_seconds,
    overlap_seconds, begun_at, requests, orders, started_at)
  select source_id, $2::bigint, $3::bigint, $4, $5, $6::bigint, coalesce(provider, base_url), mirror.server_identity(),
    $8, $9, $10::bigint, $11, $12, clock_timestamp() - $13 * interval '1 millisecond'
  from mirror.sources where source_id = $1
), reached as (
  select coalesce(safe_through, history_since) as instant from mirror.poll_state where source_id = $1
), proof as (
  select int8range(since, until) as span from mirror.coverage, reached
  where source_id = $1 and proved and until > reached.instant
  union all
  select int8range($2::bigint, $3::bigint) where $5
), run as (
  select unnest(range_agg(span)) as span from proof
), reproved as (
  update mirror.coverage_breaches b set reproved_at = clock_timestamp()
  where $5 and source_id = $1 and reproved_at is null and int8range(b.since, b.until) <@ (
    select range_agg(span) from (
      select int8range(p.since, p.until) as span from mirror.proved p
      where p.source_id = $1 and p.until > b.since and p.since < b.until
      union all
      select int8range($2::bigint, $3::bigint)) proved)
), unconfirmed as (
  ${insertUnconfirmed("$5 and $15 and version >= $2::bigint and version < $3::bigint")}
), ended as (
  delete from mirror.walks
  where source_id = $1 and sweep = $4 and ($14 = 0 or since = $2::bigint and until = $3::bigint
    and begun_at = $10::bigint and step = $14 and ${SAME_GROUND})
  returning step
)
update mirror.poll_state set
  polled_through = case when $7 then greatest(polled_through, $3::bigint) else polled_through end,
  safe_through = greatest(safe_through, (select upper(span) from run, reached where span @> reached.instant))
where source_id = $1
returning polled_through as "polledThrough", safe_through as "safeThrough",
  (select count(*) from ended)::integer as ended`;

/**
 * Records a walked window and its effects, under the lease, and removes the record of its walk, or what is left of an
 * abandoned one. Throws LeaseLostError, or WalkForgottenError if the database does not know the earlier pages. Call it
 * inside a transaction: it locks the source's watermark first, so that no proof is withdrawn between the check and the
 * move.
 *
 * `safe_through` is the end of the contiguous run of proved windows that begins at the source's history_since. So it
 * stops at a gap, however much was read beyond it, and jumps when the gap is filled. No commit moves it back, only a
 * breach: mirror.withdraw_proof withdraws a proof when a change is found that it had missed.
 */
export async function commitWindow(
  client: Queryable,
  lease: Lease,
  walked: WalkedWindow,
): Promise<CoverageProgress> {
  await lockPollState(client, lease, walked.sourceId);
  const { rows } = await client.query<{ polledThrough: string; safeThrough: string | null; ended: number }>(
    COMMIT,
    [
      walked.sourceId,
      walked.since,
      walked.until,
      walked.sweep,
      walked.proved,
      lease.fence,
      walked.movesCursor,
      walked.margins.settleSeconds,
      walked.margins.overlapSeconds,
      walked.begunAt,
      walked.requests,
      walked.orders,
      walked.durationMs,
      walked.pagesBefore,
      walked.confirmsClaims,
    ],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("the row that was locked is gone");
  if (walked.pagesBefore > 0 && row.ended === 0) throw makeForgottenError(walked.sweep, walked.pagesBefore);
  return {
    polledThrough: BigInt(row.polledThrough),
    safeThrough: row.safeThrough === null ? undefined : BigInt(row.safeThrough),
  };
}

/** Holds the lease and the source's watermark until the end of the transaction. Throws LeaseLostError. */
export async function lockPollState(client: Queryable, lease: Lease, sourceId: string): Promise<void> {
  const { rowCount } = await client.query(
    `with ${HELD} select from mirror.poll_state, held where source_id = $4 for update of poll_state`,
    [...leaseValues(lease), sourceId],
  );
  if (rowCount === 0) throw makeLeaseLostError(lease);
}

/**
 * The parts of `within` that no proved window covers, oldest first, at most `limit`. The period between history_since
 * and safe_through is proved although its windows may have been deleted; see removeCoverage.
 */
export async function readGaps(
  pool: Pool,
  { sourceId, within, limit }: { sourceId: string; within: Window; limit: number },
): Promise<Window[]> {
  const { rows } = await pool.query<{ since: string; until: string }>(
    `select lower(gap) as since, upper(gap) as until
     from unnest(int8multirange(int8range($2::bigint, $3::bigint)) - coalesce(
       (select range_agg(int8range(since, until)) from mirror.proved
        where source_id = $1 and until > $2::bigint and since < $3::bigint),
       '{}'::int8multirange)) as gap
     order by since limit $4`,
    [sourceId, within.since, within.until, limit],
  );
  return rows.map(({ since, until }) => ({ since: BigInt(since), until: BigInt(until) }));
}
