import type { Pool } from "../../../src/database/database.ts";

/**
 * The endpoint `erp` with two messages, number 1 and 2 on a new database: the first one waits, and was answered with
 * `answer`; the second one was accepted.
 */
export async function fillOutgoing(pool: Pool, answer: string): Promise<void> {
  await pool.query(
    "insert into mirror.outgoing_endpoints (endpoint_id, source_ids, position) values ('erp', '{live}', 2)",
  );
  await pool.query(
    `insert into mirror.outgoing_deliveries
       (endpoint_id, source_id, position, reference, event_type, state, attempts, last_attempt_at, last_outcome,
        duration_ms, answer, delivered_at)
     values ('erp', 'live', 1, 'ORD-1001', 'order.new', 'pending', 2, now(), 'status 500', 40, $1, null),
       ('erp', 'live', 2, 'ORD-1001', 'order.new', 'delivered', 1, now(), 'status 200', 30, null, now())`,
    [answer],
  );
}
