import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Pool } from "../../database/database.ts";
import { HELD, leaseValues, makeLeaseLostError } from "../../database/leases.sql.ts";
import type { Lease } from "../../database/leases.sql.ts";

/** A window that was walked to its end. */
export interface WalkedWindow extends Window {
  readonly sourceId: string;
  readonly sweep: string;
  /**
   * Nothing in the window can be missing: the walk was whole beyond doubt, and began so long after `until` that no
   * change could still appear in the window.
   */
  readonly proved: boolean;
  /** Moves the cursor of the fast sweep to `until`, if it is not there yet. */
  readonly movesCursor: boolean;
  readonly requests: number;
  readonly orders: number;
  readonly durationMs: number;
}

/** The cursor and the watermark after the commit. */
export interface Progress {
  readonly polledThrough: Instant;
  readonly safeThrough: Instant | undefined;
}

/**
 * Records a walked window, together with what it moves, under the lease: all or nothing. Throws LeaseLostError.
 *
 * `safe_through` is the end of the unbroken run of proved windows that begins at the source's history_since. So it
 * stops at a gap, however much was read beyond it, and jumps when the gap is filled; and it never goes back. The
 * fast sweep proves nothing: it reads changes so young that others may still appear among them.
 */
export async function commitWindow(pool: Pool, lease: Lease, walked: WalkedWindow): Promise<Progress> {
  const { rows } = await pool.query<{ polled_through: string; safe_through: string | null }>(
    `with ${HELD}, recorded as (
       insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders, started_at)
       select $4, $5::bigint, $6::bigint, $7, $8, held.fence, $10, $11,
         clock_timestamp() - $12 * interval '1 millisecond'
       from held
     ), reached as (
       select coalesce(safe_through, history_since) as instant from mirror.poll_state where source_id = $4
     ), proof as (
       select int8range(since, until) as span from mirror.coverage, reached
       where source_id = $4 and proved and until > reached.instant
       union all
       select int8range($5::bigint, $6::bigint) where $8
     ), run as (
       select unnest(range_agg(span)) as span from proof
     )
     update mirror.poll_state set
       polled_through = case when $9 then greatest(polled_through, $6::bigint) else polled_through end,
       safe_through = greatest(safe_through, (select upper(span) from run, reached where span @> reached.instant))
     from held where source_id = $4
     returning polled_through, safe_through`,
    [
      ...leaseValues(lease),
      walked.sourceId,
      walked.since,
      walked.until,
      walked.sweep,
      walked.proved,
      walked.movesCursor,
      walked.requests,
      walked.orders,
      walked.durationMs,
    ],
  );
  const [row] = rows;
  if (row === undefined) throw makeLeaseLostError(lease);
  return {
    polledThrough: BigInt(row.polled_through),
    safeThrough: row.safe_through === null ? undefined : BigInt(row.safe_through),
  };
}

/**
 * The parts of `within` that no proved window covers, oldest first, at most `limit` of them. What lies between
 * history_since and safe_through is proved, though its windows may have been removed; see removeCoverage.
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
