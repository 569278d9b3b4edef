import type { Pool } from "../../database/database.ts";

/** A received event that a job is about. */
export interface JobEvent {
  readonly seq: number;
  readonly sourceId: string;
  readonly eventId: string;
  /** Null while it is not known: the event is not decided, or names no order. */
  readonly reference: string | null;
}

/** The received events at inbox positions, by position. */
export async function readEventsAt(pool: Pool, seqs: readonly number[]): Promise<JobEvent[]> {
  const { rows } = await pool.query<JobEvent>(
    `select i.seq::float8 as seq, i.source_id as "sourceId", i.event_id as "eventId",
       (select h.reference from mirror.history h where h.inbox_seq = i.seq limit 1) as reference
     from mirror.inbox i where i.seq = any($1::bigint[]) order by i.seq`,
    [seqs],
  );
  return rows;
}
