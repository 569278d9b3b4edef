import type { Instant } from "../domain/order/instant.ts";
import { toInstant } from "../database/columns.ts";
import type { Pool } from "../database/database.ts";

/** An event in the inbox that awaits its decision. */
export interface PendingEvent {
  readonly seq: number;
  readonly sourceId: string;
  readonly eventId: string;
  readonly body: Buffer;
  /** The provider's clock, extrapolated from the last poll; null for a source that was never polled. */
  readonly providerNow: Instant | null;
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
    providerNow: string | null;
  }>({
    name: "read-pending-events",
    text: `
      select inbox.seq, inbox.source_id as "sourceId", inbox.event_id as "eventId", inbox.body,
        poll.provider_clock + (extract(epoch from clock_timestamp() - poll.provider_clock_at) * 1000000000)::bigint
          as "providerNow"
      from mirror.inbox join mirror.pending using (seq)
      left join mirror.poll_state poll on poll.source_id = inbox.source_id
      where inbox.seq = any ($1::bigint[]) and pending.seq = any ($1::bigint[])
      order by inbox.seq`,
    values: [seqs],
  });
  return result.rows.map((row) => ({
    ...row,
    seq: Number(row.seq),
    providerNow: toInstant(row.providerNow),
  }));
}
