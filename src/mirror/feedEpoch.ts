import type { Pool } from "./database.ts";

/** Renumbering touches every change and order. */
const RENUMBER_TIMEOUT_MS = 30 * 60_000;

const IS_SETTLED = "select server = mirror.server_identity() as settled from mirror.feed";

/*
 * Another server counts transactions from elsewhere: changes would be numbered below those that readers have passed,
 * or above everything that is ever readable. So what is there becomes older than all to come, in the order of
 * positions, which is that of each order's changes as well; all of it is committed, as the lock waits for writers.
 * A server that was only taken back in time goes on counting upwards and keeps its numbers, but readers may have seen
 * what is undone: they begin anew as well.
 */
const RENUMBER = `
  do $$
  declare
    known record;
    present text := mirror.server_identity();
  begin
    lock table mirror.changes in share row exclusive mode;
    select * into known from mirror.feed for update;
    if known.server = present then
      return;
    end if;
    if split_part(known.server, '/', 1) <> split_part(present, '/', 1) then
      -- Put back to before the first change that is not yet planned, found by the old numbers: what comes behind it
      -- may be sent a second time, and nothing is missed.
      update mirror.outgoing_cursors o set tx = '1', position = coalesce(
        (select min(c.position) - 1 from mirror.changes c
          where c.source_id = o.source_id and (c.tx, c.position) > (o.tx, o.position)),
        (select max(c.position) from mirror.changes c where c.source_id = o.source_id), 0);
      update mirror.changes set tx = '1';
      update mirror.orders set feed_tx = '1';
      update mirror.lost_event_cursor set tx = '1';
      update mirror.feed_removals set tx = '1';
    end if;
    update mirror.feed set server = present, begun_at = clock_timestamp(),
      epoch = left(replace(gen_random_uuid()::text, '-', ''), 12);
  end $$`;

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
