import type { Pool } from "../database/database.ts";

export interface WriteProbe {
  readonly readOnly: boolean;
  readonly mayInsert: boolean;
}

/** The first table that a process writes: events for a receiver, decisions for a worker or poller. */
export type FirstWrite = "mirror.inbox" | "mirror.history";

/**
 * Whether this login may write to `table`, and whether the database commits.
 *
 * Commits one WAL record without touching a table: success means that the database, including its disk, can store an
 * event now, and nothing is left behind. A standby, a full disk or an absent synchronous standby makes it throw or
 * hang, as an insert into the inbox would.
 */
export async function probeWrite(pool: Pool, table: FirstWrite = "mirror.inbox"): Promise<WriteProbe> {
  const { rows } = await pool.query<WriteProbe>(
    `select current_setting('transaction_read_only')::boolean as "readOnly",
            has_table_privilege($1::text, 'insert') as "mayInsert",
            pg_logical_emit_message(true, 'order-mirror', 'readyz')`,
    [table],
  );
  const [row] = rows;
  return { readOnly: row?.readOnly !== false, mayInsert: row?.mayInsert === true };
}
