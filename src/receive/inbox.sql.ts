import { packArray, packByteArray } from "../database/binaryArrays.ts";
import type { Pool } from "../database/database.ts";

/** An authenticated event as received, uninterpreted except for its key. */
export interface IncomingEvent {
  readonly sourceId: string;
  readonly eventId: string;
  readonly body: Buffer;
  /** SHA-256 of `body`, 32 bytes. */
  readonly bodyHash: Buffer;
  /** Which of the source's webhook secrets matched, from 0. */
  readonly secretIndex: number;
  /** The headers that describe it, as a JSON object of texts; without signatures. */
  readonly headers: string;
}

/** A new event: its position in the inbox, and its index among the given events. */
export interface StoredEvent {
  readonly seq: number;
  readonly index: number;
}

// The order is the caller's. A repeated event may exist only on this server, if the commit that stored it was cut off
// while waiting for a synchronous standby. A transaction without writes waits for no standby, so it writes an empty
// message.
const INSERT_EVENTS = `
  with stored as (
    insert into mirror.inbox (source_id, event_id, body_hash, body, secret_index, headers)
    select source_id, event_id, body_hash, body, secret_index, headers::json
    from unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::smallint[], $6::text[])
      with ordinality as event (source_id, event_id, body_hash, body, secret_index, headers, place)
    order by place
    on conflict (source_id, event_id, body_hash) do nothing
    returning seq, source_id, event_id, body_hash, received_at
  ), awaiting as (
    insert into mirror.pending (seq, source_id, received_at) select seq, source_id, received_at from stored
  ), seen_again as (
    select pg_logical_emit_message(true, 'order-mirror', '')
    where (select count(*) from stored) < cardinality($1::text[])
  )
  select seq, source_id as "sourceId", event_id as "eventId", body_hash as "bodyHash"
  from (select count(*) from seen_again) as waits left join stored on true`;

interface StoredRow {
  /** Null if no event was new; then all columns are null. */
  readonly seq: string | null;
  readonly sourceId: string;
  readonly eventId: string;
  readonly bodyHash: Buffer;
}

/**
 * Stores events in the inbox, and as pending, in one statement: all of them or none.
 *
 * Returns the new events. An event that is already there (same source, event id and body), or is repeated in `events`,
 * adds no row and is then as durable as a new one; the same event id with another body is a new row. Rows are written
 * in the order of their key, so that two processes with the same events wait for each other instead of deadlocking. The
 * statement is prepared under a name, which a connection pooler in transaction mode must support.
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
    const index = places.get(keyOf(row.sourceId, row.eventId, row.bodyHash));
    return index === undefined ? [] : [{ seq: Number(row.seq), index }];
  });
}

function packEvents(events: readonly IncomingEvent[]): unknown[] {
  const valuesOf = <Name extends keyof IncomingEvent>(name: Name) => events.map((event) => event[name]);
  const keys = [packArray("text", valuesOf("sourceId")), packArray("text", valuesOf("eventId"))];
  const bytes = [packByteArray(valuesOf("bodyHash")), packByteArray(valuesOf("body"))];
  return [
    ...keys,
    ...bytes,
    packArray("smallint", valuesOf("secretIndex")),
    packArray("text", valuesOf("headers")),
  ];
}

/** Any fixed order of keys works, as long as every process uses the same. */
function keyOf(sourceId: string, eventId: string, bodyHash: Buffer): string {
  return `${sourceId}\0${eventId}\0${bodyHash.toString("latin1")}`;
}

export interface OverdueQuery {
  /** Only these sources: events of an unconfigured source wait until it is configured again. */
  readonly sourceIds: readonly string[];
  readonly olderThanSeconds: number;
  readonly limit: number;
  /** Only beyond this position, so that the overdue check gets past events that cannot be processed now. */
  readonly afterSeq?: number;
}

/**
 * Lists inbox positions that have awaited a decision for at least `olderThanSeconds`, oldest first, at most `limit`;
 * and those that were received in the future, because the database's clock was set back.
 *
 * Nothing is claimed: applying an event twice concurrently is harmless, and its decision removes it from here.
 */
export async function takeOverdue(pool: Pool, query: OverdueQuery): Promise<number[]> {
  const { rows } = await pool.query<{ seq: string }>({
    name: "take-overdue",
    text: `
      select seq from mirror.pending
      where seq > $1 and source_id = any ($2::text[])
        and (received_at <= clock_timestamp() - make_interval(secs => $3) or received_at > clock_timestamp())
      order by seq limit $4`,
    values: [query.afterSeq ?? 0, query.sourceIds, query.olderThanSeconds, query.limit],
  });
  return rows.map((row) => Number(row.seq));
}

/**
 * Finds the position beyond which an event of these sources may await a decision, as far as those beyond `afterSeq`
 * tell: the last one in the inbox if none does.
 */
export async function findFirstPending(
  pool: Pool,
  { sourceIds, afterSeq }: Pick<OverdueQuery, "sourceIds"> & { readonly afterSeq: number },
): Promise<number> {
  const { rows } = await pool.query<{ before: string }>({
    name: "find-first-pending",
    text: `
      select coalesce(
        (select seq - 1 from mirror.pending where seq > $1 and source_id = any ($2::text[]) order by seq limit 1),
        (select seq from mirror.inbox order by seq desc limit 1), $1) as before`,
    values: [afterSeq, sourceIds],
  });
  return Number(rows[0]?.before ?? afterSeq);
}
