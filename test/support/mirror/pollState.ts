import type { Pool } from "../../../src/database/database.ts";
import type { Window } from "../../../src/domain/window/window.ts";
import type { PollState } from "../../../src/poll/pollState.sql.ts";
import type { WindowRead } from "../../../src/poll/windows.ts";

/** How far a source is; undefined if it was never polled. */
export async function readPollState(
  pool: Pool,
  sourceId: string,
): Promise<Omit<PollState, "isListDoubted"> | undefined> {
  const { rows } = await pool.query<Record<"since" | "through", string> & { safe: string | null }>(
    `select history_since as since, polled_through as through, safe_through as safe
     from mirror.poll_state where source_id = $1 and history_since is not null`,
    [sourceId],
  );
  return rows.map(({ since, through, safe }) => ({
    historySince: BigInt(since),
    polledThrough: BigInt(through),
    safeThrough: safe === null ? null : BigInt(safe),
  }))[0];
}

/** A window that was read to its end as soon as it was over. */
export function makeRead(window: Window, more: Partial<WindowRead> = {}): WindowRead {
  const found = { whole: true, requests: 1, orders: 0, listed: [], differed: [] };
  return { window, begunAt: window.until, durationMs: 1, ...found, ...more };
}
