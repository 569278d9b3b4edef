import type { Pool } from "../database/database.ts";

/** In the database and with its owner's rights, as it writes what the processes themselves must not. */
const BEGIN = "select mirror.begin_feed_epoch() as begun";

/**
 * Begins a new epoch of the change feed when the database has moved to another server or back in time; otherwise does
 * nothing. Returns true when it began one. Writers of changes ask the same, so the order of the two does not matter.
 */
export async function beginFeedEpoch(pool: Pool): Promise<boolean> {
  const { rows } = await pool.query<{ begun: boolean }>(BEGIN);
  return rows[0]?.begun === true;
}
