import type { Instant } from "../domain/order/instant.ts";
import { toInstant } from "../database/columns.ts";
import type { Pool } from "../database/database.ts";

/** Where one source stands. Times of ours are the database's. */
export interface SourceStatus {
  readonly sourceId: string;
  readonly mode: "live" | "test";
  readonly orders: number;
  /** All changes with updatedAt before it are in the mirror; null before the first whole walk. */
  readonly safeThrough: Instant | null;
  readonly polledThrough: Instant | null;
  readonly lastCycleEndedAt: Instant | null;
  /** The last trouble of polling since the last cycle that ended well; null when there is none. */
  readonly lastError: string | null;
  readonly lastEventReceivedAt: Instant | null;
  readonly pending: number;
  readonly oldestPendingSeconds: number | null;
  readonly quarantined: number;
  readonly refetches: number;
  /** Orders that safeThrough does not speak of; see mirror.exceptions. */
  readonly exceptions: number;
  /** How often a proof was taken back. */
  readonly breaches: number;
  /** The last time; null when it never happened. */
  readonly lastBreachAt: Instant | null;
  /** The database's clock at the time of the look. */
  readonly now: Instant;
}

interface StatusRow {
  readonly source_id: string;
  readonly mode: "live" | "test";
  readonly orders: string;
  readonly safe_through: string | null;
  readonly polled_through: string | null;
  readonly last_cycle_ended_at: string | null;
  readonly last_error: string | null;
  readonly last_event_received_at: string | null;
  readonly pending: string;
  readonly oldest_pending_seconds: number | null;
  readonly quarantined: string;
  readonly refetches: string;
  readonly exceptions: string;
  readonly breaches: string;
  readonly last_breach_at: string | null;
  readonly now: string;
}

/** Where every known source stands, by name. Counts all orders: for a person's look, not for a loop. */
export async function readStatus(pool: Pool): Promise<SourceStatus[]> {
  const { rows } = await pool.query<StatusRow>(`
    select s.source_id, s.mode, poll.safe_through, poll.polled_through,
      case when poll.last_error_at > coalesce(poll.last_cycle_ended_at, '-infinity') then poll.last_error end as last_error,
      (extract(epoch from poll.last_cycle_ended_at) * 1000000000)::bigint as last_cycle_ended_at,
      (select count(*) from mirror.orders o where o.source_id = s.source_id and o.gone_at is null) as orders,
      (extract(epoch from (
        select received_at from mirror.inbox i where i.source_id = s.source_id order by seq desc limit 1
      )) * 1000000000)::bigint as last_event_received_at,
      waiting.pending, waiting.oldest_pending_seconds,
      (select count(*) from mirror.quarantine q where q.source_id = s.source_id and q.state = 'open') as quarantined,
      (select count(*) from mirror.refetches r where r.source_id = s.source_id) as refetches,
      (select count(*) from mirror.exceptions e where e.source_id = s.source_id) as exceptions,
      broken.breaches, broken.last_breach_at,
      (extract(epoch from clock_timestamp()) * 1000000000)::bigint as now
    from mirror.sources s
    left join mirror.poll_state poll using (source_id)
    cross join lateral (
      select count(*) as pending, extract(epoch from clock_timestamp() - min(received_at))::float8 as oldest_pending_seconds
      from mirror.pending p where p.source_id = s.source_id
    ) waiting
    cross join lateral (
      select count(*) as breaches, mirror.nanos_of(max(found_at)) as last_breach_at
      from mirror.coverage_breaches b where b.source_id = s.source_id
    ) broken
    order by s.source_id`);
  return rows.map((row) => ({
    sourceId: row.source_id,
    mode: row.mode,
    orders: Number(row.orders),
    safeThrough: toInstant(row.safe_through),
    polledThrough: toInstant(row.polled_through),
    lastCycleEndedAt: toInstant(row.last_cycle_ended_at),
    lastError: row.last_error,
    lastEventReceivedAt: toInstant(row.last_event_received_at),
    pending: Number(row.pending),
    oldestPendingSeconds: row.oldest_pending_seconds,
    quarantined: Number(row.quarantined),
    refetches: Number(row.refetches),
    exceptions: Number(row.exceptions),
    breaches: Number(row.breaches),
    lastBreachAt: toInstant(row.last_breach_at),
    now: BigInt(row.now),
  }));
}
