import type { Pool } from "../database/database.ts";

/** Renumbering touches every change and order. */
const RENUMBER_TIMEOUT_MS = 30 * 60_000;

const IS_SETTLED = "select server = mirror.server_identity() as settled from mirror.feed";

/** In the database and with its owner's rights, as it writes what the processes themselves must not. */
const RENUMBER = "select mirror.begin_feed_epoch()";

/**
 * Notices that the database was restored on another server or to an earlier moment, and begins a new epoch of the
 * change feed: positions from before are refused, so that readers begin anew instead of missing changes.
 *
 * Returns true when a new epoch was begun. Costs one look when nothing has happened.
 */
export async function settleFeed(pool: Pool): Promise<boolean> {
  const { rows } = await pool.query<{ settled: boolean }>(IS_SETTLED);
  if (rows[0]?.settled !== false) return false;
  const client = await pool.connect();
  try {
    // For this transaction only: a pooler would hand a setting of the session on to others.
    const timed = `begin; set local statement_timeout = ${RENUMBER_TIMEOUT_MS}; ${RENUMBER}; commit`;
    await client.query({ text: timed, query_timeout: RENUMBER_TIMEOUT_MS } as { text: string });
    return true;
  } finally {
    // Not kept: after a failure it may stand in an open transaction.
    client.release(true);
  }
}
