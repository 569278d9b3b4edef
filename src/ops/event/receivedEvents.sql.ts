import { queryInstants, type Pool } from "../../database/database.ts";
import type { Instant } from "../../domain/order/instant.ts";

/** An event as received; a second one under the same id has another body. */
export interface ReceivedEvent {
  readonly sourceId: string;
  readonly seq: string;
  readonly receivedAt: Instant;
  /** From 0: which of the source's webhook secrets verified it. */
  readonly secretIndex: number;
  /** Null once the order of the event is erased. */
  readonly headers: Readonly<Record<string, string>> | null;
  readonly body: Buffer;
  /** Whether the event waits for its decision. */
  readonly isPending: boolean;
  readonly decisions: readonly Decision[];
}

export interface Decision {
  readonly verdict: string;
  readonly reason: string | null;
  readonly reference: string | null;
  readonly seenAt: Instant;
  readonly quarantineId: string | null;
}

/** More under one id come from a sender that is wrong. */
const EVENTS_MAX = 20;

export async function readEvents(pool: Pool, sourceId: string, eventId: string): Promise<ReceivedEvent[]> {
  const events = await queryInstants<Omit<ReceivedEvent, "decisions">>(
    pool,
    `select i.source_id as "sourceId", i.seq::text as seq, mirror.nanos_of(i.received_at) as "receivedAt",
       i.secret_index::int as "secretIndex", i.headers, i.body,
       exists (select from mirror.pending p where p.seq = i.seq) as "isPending"
     from mirror.inbox i where i.source_id = $1 and i.event_id = $2 order by i.seq limit ${EVENTS_MAX}`,
    [sourceId, eventId],
  );
  const decisions = await queryInstants<Decision & { seq: string }>(
    pool,
    `select h.inbox_seq::text as seq, h.verdict, h.reason, h.reference, mirror.nanos_of(h.seen_at) as "seenAt",
       (select q.quarantine_id::text from mirror.quarantine q where q.inbox_seq = h.inbox_seq
        order by q.quarantine_id desc limit 1) as "quarantineId"
     from mirror.history h where h.source_id = $1 and h.inbox_seq = any($2::bigint[]) order by h.history_id`,
    [sourceId, events.map(({ seq }) => seq)],
  );
  return events.map((event) => ({ ...event, decisions: decisions.filter(({ seq }) => seq === event.seq) }));
}
