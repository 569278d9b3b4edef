import type { Pool } from "../database/database.ts";

/** The state of one endpoint of outgoing webhooks. Times are seconds since 1970, by the database's clock. */
export interface OutgoingEndpoint {
  readonly endpointId: string;
  /** Sources whose changes it is or was notified of. */
  readonly sourceIds: readonly string[];
  readonly pending: number;
  readonly dead: number;
  readonly oldestPendingAt: number | null;
  /** The last attempt of the first message that was given up. */
  readonly oldestDeadAt: number | null;
  readonly newestDeliveredAt: number | null;
  /** When changes were last removed before it was notified of them, within the last week. */
  readonly newestMissedAt: number | null;
  readonly failuresInRow: number;
  /** Nothing is sent before this time; null if it is not paused. */
  readonly pausedUntil: number | null;
}

/** Every endpoint that was ever configured, by name. */
export async function readOutgoingEndpoints(pool: Pool): Promise<OutgoingEndpoint[]> {
  const { rows } = await pool.query<OutgoingEndpoint>(
    `select w.endpoint_id as "endpointId", w.pending_count::int as pending, w.dead_count::int as dead,
       array(select c.source_id from mirror.outgoing_cursors c
             where c.endpoint_id = w.endpoint_id order by 1) as "sourceIds",
       extract(epoch from w.oldest_pending_at)::float8 as "oldestPendingAt",
       (select extract(epoch from min(d.last_attempt_at))::float8 from mirror.outgoing_deliveries d
        where d.endpoint_id = w.endpoint_id and d.state = 'dead') as "oldestDeadAt",
       extract(epoch from w.newest_delivered_at)::float8 as "newestDeliveredAt",
       extract(epoch from w.newest_missed_at)::float8 as "newestMissedAt",
       w.failures_in_row as "failuresInRow",
       case when w.paused_until > clock_timestamp() then extract(epoch from w.paused_until)::float8 end as "pausedUntil"
     from reporting.outgoing_webhooks w order by w.endpoint_id`,
  );
  return rows;
}
