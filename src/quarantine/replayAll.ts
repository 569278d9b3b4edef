import type { Pool } from "../database/database.ts";
import { replayQuarantined, type QuarantineFilter } from "./replay.sql.ts";

const ROWS_PER_STATEMENT = 500;

/** Replays all that fit, up to the number `throughId`; returns how many. `notify` gets the inbox positions of the events. */
export async function replayAll(
  pool: Pool,
  chosen: { filter: QuarantineFilter; throughId: string },
  notify: (seqs: readonly number[]) => void,
): Promise<{ events: number; reads: number }> {
  const replayed = { events: 0, reads: 0 };
  for (;;) {
    const { seqs, reads } = await replayQuarantined(pool, { ...chosen, limit: ROWS_PER_STATEMENT });
    if (seqs.length + reads === 0) return replayed;
    replayed.events += seqs.length;
    replayed.reads += reads;
    if (seqs.length > 0) notify(seqs);
  }
}

/** What of the quarantine an action concerns, for the audit log. */
export function describeFilter({ quarantineId, reason }: QuarantineFilter, throughId: string): string {
  return quarantineId === null
    ? `quarantine ${reason ?? "all reasons"}, through ${throughId}`
    : `quarantine ${quarantineId}`;
}
