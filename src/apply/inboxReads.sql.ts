import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";

/** An event in the inbox that awaits its decision. */
export interface PendingEvent {
  readonly seq: number;
  readonly sourceId: string;
  readonly eventId: string;
  readonly body: Buffer;
  /** The time of this reading. */
  readonly databaseNow: Instant;
}

/**
 * Those events among `seqs` that still await a decision, in inbox order.
 *
 * The positions are given for each table separately: given only for the inbox, pending would be scanned from its
 * beginning, over the entries of all decided events that are not vacuumed yet.
 */
export async function readPendingEvents(pool: Pool, seqs: readonly number[]): Promise<PendingEvent[]> {
  const result = await pool.query<{
    seq: string;
    sourceId: string;
    eventId: string;
    body: Buffer;
    databaseNow: string;
  }>({
    name: "read-pending-events",
    text: `
      select inbox.seq, inbox.source_id as "sourceId", inbox.event_id as "eventId", inbox.body,
        mirror.nanos_of(clock_timestamp()) as "databaseNow"
      from mirror.inbox join mirror.pending using (seq)
      where inbox.seq = any ($1::bigint[]) and pending.seq = any ($1::bigint[])
      order by inbox.seq`,
    values: [seqs],
  });
  return result.rows.map((row) => ({
    ...row,
    seq: Number(row.seq),
    databaseNow: BigInt(row.databaseNow),
  }));
}
