import type { Pool } from "../database/database.ts";

/** An event in the inbox that awaits its decision. */
export interface PendingEvent {
  readonly seq: number;
  readonly sourceId: string;
  readonly eventId: string;
  readonly body: Buffer;
}

/**
 * The events among `seqs` that still await a decision, in the order of the inbox.
 *
 * The positions stand for each table by itself: where only the inbox has them, pending is read from its beginning, over
 * the entries of all decided events that are not vacuumed yet.
 */
export async function readPendingEvents(pool: Pool, seqs: readonly number[]): Promise<PendingEvent[]> {
  const result = await pool.query<{ seq: string; source_id: string; event_id: string; body: Buffer }>({
    name: "read-pending-events",
    text: `
      select inbox.seq, inbox.source_id, inbox.event_id, inbox.body
      from mirror.inbox join mirror.pending using (seq)
      where inbox.seq = any ($1::bigint[]) and pending.seq = any ($1::bigint[])
      order by inbox.seq`,
    values: [seqs],
  });
  return result.rows.map((row) => ({
    seq: Number(row.seq),
    sourceId: row.source_id,
    eventId: row.event_id,
    body: row.body,
  }));
}
