import type { Instant } from "../domain/order/instant.ts";
import { toInstant } from "../database/columns.ts";
import type { Pool } from "../database/database.ts";

export interface WriteProbe {
  readonly readOnly: boolean;
  readonly mayInsert: boolean;
}

/** What a process writes first of all: who receives, events; who applies, decisions. */
export type FirstWrite = "mirror.inbox" | "mirror.history";

/**
 * Whether this login may write to `table`, and the database commits at all.
 *
 * Commits one WAL record that no table sees: the database can store an event now, its disk included, and nothing is
 * left behind. A standby, a full disk and a synchronous standby that is away throw or hang, as the inbox would.
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

/** When the last poll of any source ended, as far as this server knows; null when it knows of none. */
export async function readNewestCycle(pool: Pool): Promise<Instant | null> {
  const { rows } = await pool.query<{ at: string | null }>(
    "select mirror.nanos_of(max(last_cycle_ended_at)) as at from mirror.poll_state",
  );
  return toInstant(rows[0]?.at ?? null);
}
