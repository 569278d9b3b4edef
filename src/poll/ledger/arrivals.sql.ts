import type { ArrivalCount, Margins } from "../../domain/window/lateness.ts";
import type { Pool } from "../../database/database.ts";
import { writeUnderLease } from "../../database/leases.sql.ts";
import type { Lease } from "../../database/leases.sql.ts";

/** Adds to the counts of this hour, and deletes those older than 13 months. Throws LeaseLostError. */
export async function recordArrivals(
  pool: Pool,
  lease: Lease,
  { sourceId, counts }: { sourceId: string; counts: readonly ArrivalCount[] },
): Promise<void> {
  await writeUnderLease(
    pool,
    lease,
    `recorded as (
       insert into mirror.arrivals as a (source_id, hour, missed_seconds, seen_seconds, changes)
       select $4, date_trunc('hour', clock_timestamp()), missed, seen, changes
       from held cross join unnest($5::int[], $6::int[], $7::bigint[]) as c (missed, seen, changes)
       order by missed, seen
       on conflict (source_id, hour, missed_seconds, seen_seconds) do update set changes = a.changes + excluded.changes
     ), forgotten as (
       delete from mirror.arrivals using held
       where source_id = $4 and hour < clock_timestamp() - interval '400 days'
     )`,
    [
      sourceId,
      counts.map(({ missedSeconds }) => missedSeconds),
      counts.map(({ seenSeconds }) => seenSeconds),
      counts.map(({ changes }) => changes),
    ],
  );
}

/** The counts of the last seven days. */
export async function readArrivals(pool: Pool, sourceId: string): Promise<ArrivalCount[]> {
  const { rows } = await pool.query<ArrivalCount>(
    `select missed_seconds as "missedSeconds", seen_seconds as "seenSeconds", sum(changes)::float8 as changes
     from mirror.arrivals where source_id = $1 and hour > clock_timestamp() - interval '7 days'
     group by missed_seconds, seen_seconds`,
    [sourceId],
  );
  return rows;
}

/** Records the margins in force, for people to see. Throws LeaseLostError. */
export async function recordMargins(
  pool: Pool,
  lease: Lease,
  { sourceId, margins, tailSeconds }: { sourceId: string; margins: Margins; tailSeconds: number },
): Promise<void> {
  await writeUnderLease(
    pool,
    lease,
    `recorded as (
       update mirror.poll_state set settle_seconds = $5, overlap_seconds = $6, late_tail_seconds = $7
       from held where source_id = $4
     )`,
    [sourceId, margins.settleSeconds, margins.overlapSeconds, tailSeconds],
  );
}

/** The margins as last tuned by a leader. */
export interface StoredMargins extends Margins {
  /**
   * Age at which the latest of the late changes of the last week was seen, those that a read had missed; 0: none was
   * late.
   */
  readonly tailSeconds: number;
}

/** Null before the first tuning. */
export async function readMargins(pool: Pool, sourceId: string): Promise<StoredMargins | null> {
  const { rows } = await pool.query<StoredMargins>(
    `select settle_seconds as "settleSeconds", overlap_seconds as "overlapSeconds", late_tail_seconds as "tailSeconds"
     from mirror.poll_state where source_id = $1 and overlap_seconds is not null`,
    [sourceId],
  );
  return rows[0] ?? null;
}
