import type { Pool } from "../../database/database.ts";
import { startsOf } from "../../database/packedBytes.ts";

/** An authenticated event as it came: nothing of it was interpreted but what makes its key. */
export interface IncomingEvent {
  readonly sourceId: string;
  readonly eventId: string;
  readonly body: Buffer;
  /** SHA-256 of `body`, 32 bytes. */
  readonly bodyHash: Buffer;
  /** Which of the source's webhook secrets matched, 0 first. */
  readonly secretIndex: number;
}

/** An event that was new: its position in the inbox, and which of the given events it was. */
export interface StoredEvent {
  readonly seq: number;
  readonly index: number;
}

const HASH_BYTES = 32;

// Bodies and hashes travel as one binary value each and are cut apart by the server: as arrays they would cost Postgres
// a quarter more per event. The order is the caller's.
// An event that is there already may be there on this server only, when the commit that brought it was cut off in its wait
// for a synchronous standby. A transaction that writes nothing waits for no standby, so a message to nobody is written.
const INSERT_EVENTS = `
  with stored as (
    insert into mirror.inbox (source_id, event_id, body_hash, body, secret_index)
    select source_id, event_id, substring($3::bytea from hash_start for ${HASH_BYTES}),
           substring($4::bytea from body_start for body_length), secret_index
    from unnest($1::text[], $2::text[], $5::int[], $6::int[], $7::int[], $8::smallint[])
      with ordinality as event (source_id, event_id, hash_start, body_start, body_length, secret_index, place)
    order by place
    on conflict (source_id, event_id, body_hash) do nothing
    returning seq, source_id, event_id, body_hash, received_at
  ), awaiting as (
    insert into mirror.pending (seq, source_id, received_at) select seq, source_id, received_at from stored
  ), seen_again as (
    select pg_logical_emit_message(true, 'order-mirror', '')
    where (select count(*) from stored) < cardinality($1::text[])
  )
  select seq, source_id, event_id, body_hash
  from (select count(*) from seen_again) as waits left join stored on true`;

interface StoredRow {
  /** Null when no event was new; then all is. */
  readonly seq: string | null;
  readonly source_id: string;
  readonly event_id: string;
  readonly body_hash: Buffer;
}

/**
 * Stores events in the inbox, and as pending, in one statement: all of them or none.
 *
 * Returns the events that were new. One that is already there (same source, event id and body), or that comes
 * twice in `events`, gives no second row, and is as durable then as a new one; the same event id with another body is a
 * new row. Rows are written in
 * the order of their key, so that two processes with the same events wait for each other instead of deadlocking.
 * The statement is prepared under a name, which a connection pooler in transaction mode must support.
 */
export async function insertEvents(pool: Pool, events: readonly IncomingEvent[]): Promise<StoredEvent[]> {
  if (events.length === 0) return [];
  const places = new Map<string, number>();
  for (const [index, event] of events.entries()) {
    const key = keyOf(event.sourceId, event.eventId, event.bodyHash);
    if (!places.has(key)) places.set(key, index);
  }
  const keys = [...places.keys()].sort();
  const sorted = keys.flatMap((key) => events[places.get(key) ?? -1] ?? []);
  const { rows } = await pool.query<StoredRow>({
    name: "insert-events",
    text: INSERT_EVENTS,
    values: packEvents(sorted),
  });
  return rows.flatMap((row) => {
    if (row.seq === null) return [];
    const index = places.get(keyOf(row.source_id, row.event_id, row.body_hash));
    return index === undefined ? [] : [{ seq: Number(row.seq), index }];
  });
}

function packEvents(events: readonly IncomingEvent[]): unknown[] {
  const bodyLengths = events.map((event) => event.body.length);
  return [
    events.map((event) => event.sourceId),
    events.map((event) => event.eventId),
    Buffer.concat(events.map((event) => event.bodyHash)),
    Buffer.concat(events.map((event) => event.body)),
    events.map((_, place) => place * HASH_BYTES + 1),
    startsOf(bodyLengths),
    bodyLengths,
    events.map((event) => event.secretIndex),
  ];
}

/** Any fixed order of keys will do, as long as every process uses the same. */
function keyOf(sourceId: string, eventId: string, bodyHash: Buffer): string {
  return `${sourceId}\0${eventId}\0${bodyHash.toString("latin1")}`;
}

export interface OverdueQuery {
  /** Only of these sources: the events of one that is no longer configured wait until it is again. */
  readonly sourceIds: readonly string[];
  readonly olderThanSeconds: number;
  readonly limit: number;
  /** Only beyond this position, so that the overdue check goes on past events that nothing can be done with now. */
  readonly afterSeq?: number;
}

/**
 * Inbox positions that have awaited a decision for at least `olderThanSeconds`, oldest first, at most `limit`.
 *
 * Nothing is claimed: applying an event twice at once is harmless, and its decision removes it from here.
 */
export async function takeOverdue(pool: Pool, query: OverdueQuery): Promise<number[]> {
  const { rows } = await pool.query<{ seq: string }>({
    name: "take-overdue",
    text: `
      select seq from mirror.pending
      where seq > $1 and source_id = any ($2::text[])
        and received_at <= clock_timestamp() - make_interval(secs => $3)
      order by seq limit $4`,
    values: [query.afterSeq ?? 0, query.sourceIds, query.olderThanSeconds, query.limit],
  });
  return rows.map((row) => Number(row.seq));
}
