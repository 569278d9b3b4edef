import type { Instant } from "../domain/instant.ts";
import type { Pool } from "./database.ts";

/** How a source stands. Ages are seconds by the database's clock; null where it has not happened yet. */
export interface SourceState {
  readonly sourceId: string;
  readonly mode: "live" | "test";
  /** Every change with updatedAt before it is in the mirror. */
  readonly safeThrough: Instant | null;
  readonly safeThroughAgeSeconds: number | null;
  readonly pollEndedAgeSeconds: number | null;
  readonly pollStartedAgeSeconds: number | null;
  readonly lastError: string | null;
  readonly lastErrorAgeSeconds: number | null;
}

/** What waits, over all sources. Each count stops at COUNT_MAX. */
export interface Backlog {
  /** By the database's clock, ISO 8601 in UTC to the second. */
  readonly asOf: string;
  readonly pending: number;
  readonly oldestPendingAgeSeconds: number | null;
  readonly quarantined: number;
}

/** Counting further would cost a busy database more than the digits are worth. */
export const COUNT_MAX = 100_000;

/** Every source that was ever configured, by name. */
export async function selectSourceStates(pool: Pool): Promise<SourceState[]> {
  const { rows } = await pool.query<Omit<SourceState, "safeThrough"> & { safeThrough: string | null }>(
    `select s.source_id as "sourceId", s.mode, p.safe_through as "safeThrough",
            (extract(epoch from clock_timestamp()) - p.safe_through / 1000000000.0)::float8 as "safeThroughAgeSeconds",
            extract(epoch from clock_timestamp() - p.last_cycle_ended_at)::float8 as "pollEndedAgeSeconds",
            extract(epoch from clock_timestamp() - p.last_cycle_started_at)::float8 as "pollStartedAgeSeconds",
            p.last_error as "lastError",
            extract(epoch from clock_timestamp() - p.last_error_at)::float8 as "lastErrorAgeSeconds"
       from mirror.sources s left join mirror.poll_state p using (source_id)
      order by s.source_id`,
  );
  return rows.map((row) => ({
    ...row,
    safeThrough: row.safeThrough === null ? null : BigInt(row.safeThrough),
  }));
}

/** The oldest pending event is the first of the inbox that awaits a decision. */
export async function selectBacklog(pool: Pool): Promise<Backlog> {
  const { rows } = await pool.query<Backlog>(
    `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as "asOf",
            (select count(*)::integer from (select from mirror.pending limit $1) p) as pending,
            (select extract(epoch from clock_timestamp() - received_at)::float8
               from mirror.pending order by seq limit 1) as "oldestPendingAgeSeconds",
            (select count(*)::integer from (select from mirror.quarantine where state = 'open' limit $1) q) as quarantined`,
    [COUNT_MAX + 1],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("a select without from returns one row");
  return row;
}
