import type { Pool } from "../../database/database.ts";

/** Flow of the events of the last hour, whatever the queue says. */
export interface EventFlow {
  /** Null: no event waits for its decision. */
  readonly oldestWaitingSeconds: number | null;
  readonly eventsInHour: number;
  /**
   * From the commit of an event to the decision on it, or to now while it waits, of the newest events; null: there were
   * none.
   */
  readonly p50Seconds: number | null;
  readonly p95Seconds: number | null;
}

/** The newest events that the times are taken from: exact enough, and quick however many there are. */
const EVENTS_TIMED_MAX = 2_000;

export async function readEventFlow(pool: Pool): Promise<EventFlow> {
  const { rows } = await pool.query<EventFlow>(`
    with newest as (
      select * from (
        select seq, source_id, received_at from mirror.inbox order by seq desc limit ${EVENTS_TIMED_MAX}
      ) latest where received_at > clock_timestamp() - interval '1 hour'
    ), timed as (
      select percentile_cont(array[0.5, 0.95]) within group (
        order by greatest(0, extract(epoch from coalesce(h.seen_at, clock_timestamp()) - n.received_at))::float8) as lags
      from newest n cross join lateral (
        -- What still waits has waited until now: without it an outage would look fast.
        select min(seen_at) as seen_at from mirror.history
        where inbox_seq = n.seq and source_id = n.source_id
      ) h
    )
    select
      (select extract(epoch from clock_timestamp() - min(received_at))::float8 from mirror.pending)
        as "oldestWaitingSeconds",
      -- Counted at the address, because the newest events above are not all of a busy hour.
      (select greatest((select count(*) from newest), coalesce(sum(calls), 0))::float8 from mirror.calls
       where kind = 'webhook' and outcome = 'accepted' and minute > clock_timestamp() - interval '1 hour') as "eventsInHour",
      lags[1] as "p50Seconds", lags[2] as "p95Seconds"
    from timed`);
  return rows[0] ?? { oldestWaitingSeconds: null, eventsInHour: 0, p50Seconds: null, p95Seconds: null };
}

/** A received event that a job is about. */
export interface JobEvent {
  readonly sourceId: string;
  readonly eventId: string;
  /** Null while it is not known: the event is not decided, or names no order. */
  readonly reference: string | null;
}

/** The received events at inbox positions, by position. */
export async function readEventsAt(pool: Pool, seqs: readonly number[]): Promise<JobEvent[]> {
  const { rows } = await pool.query<JobEvent>(
    `select i.source_id as "sourceId", i.event_id as "eventId",
       (select h.reference from mirror.history h where h.inbox_seq = i.seq limit 1) as reference
     from mirror.inbox i where i.seq = any($1::bigint[]) order by i.seq`,
    [seqs],
  );
  return rows;
}
