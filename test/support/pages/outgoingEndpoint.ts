import type { Pool } from "../../../src/database/database.ts";

/**
 * The endpoint `erp` with two messages, which were accepted: the first one, number 1 on a new database, at its second
 * attempt. Its first answer was `answer`.
 */
export async function fillOutgoing(pool: Pool, answer: string): Promise<void> {
  await pool.query("insert into mirror.outgoing_endpoints (endpoint_id) values ('erp')");
  await pool.query(
    "insert into mirror.outgoing_cursors (endpoint_id, source_id, position) values ('erp', 'live', 2)",
  );
  await pool.query(
    `insert into mirror.outgoing_deliveries
       (endpoint_id, source_id, position, reference, event_type, state, attempts, last_attempt_at, last_outcome, delivered_at)
     select 'erp', 'live', n, 'ORD-1001', 'order.new', 'delivered', 1, now(), 'status 200', now() from generate_series(1, 2) n`,
  );
  await pool.query(
    `insert into mirror.outgoing_attempts
       (endpoint_id, delivery_id, round, attempt, started_at, ended_at, accepted, outcome, duration_ms, answer)
     select 'erp', delivery_id, 1, 1, now() - interval '1 minute', now(), false, 'status 500', 40, $1
     from mirror.outgoing_deliveries where position = 1
     union all select 'erp', delivery_id, 1, 2, now(), now(), true, 'status 200', 30, null from mirror.outgoing_deliveries`,
    [answer],
  );
}
