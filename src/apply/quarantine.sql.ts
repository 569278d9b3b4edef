import type { OpsAction } from "../database/auditLog.sql.ts";
import type { Instant } from "../domain/order/instant.ts";
import { queryInstants, type Pool } from "../database/database.ts";

export const QUARANTINE_STATES = ["open", "dismissed"] as const;
export type QuarantineState = (typeof QUARANTINE_STATES)[number];

/** Input that could not be applied. */
export interface QuarantinedInput {
  readonly quarantineId: string;
  readonly sourceId: string;
  readonly via: string;
  readonly reference: string | null;
  readonly reason: string;
  readonly detail: string | null;
  /** Null for input from a read of ours. */
  readonly eventId: string | null;
  readonly state: QuarantineState;
  /** The database's clock. */
  readonly quarantinedAt: Instant;
  readonly dismissedAt: Instant | null;
  readonly dismissedBecause: string | null;
  /** Byte for byte. */
  readonly body: Buffer;
}

/** Undefined if there is no entry with that number, for example because it was replayed. */
export async function readQuarantined(pool: Pool, quarantineId: string) {
  const [input] = await queryInstants<QuarantinedInput>(
    pool,
    `select q.quarantine_id::text as "quarantineId", q.source_id as "sourceId", q.via, q.reference, q.reason, q.detail,
       i.event_id as "eventId", q.state, mirror.nanos_of(q.quarantined_at) as "quarantinedAt",
       mirror.nanos_of(q.dismissed_at) as "dismissedAt", q.dismissed_because as "dismissedBecause",
       coalesce(i.body, q.raw, '') as body
     from mirror.quarantine q left join mirror.inbox i on i.seq = q.inbox_seq where q.quarantine_id = $1`,
    [quarantineId],
  );
  return input;
}

/** Which rows of the quarantine; null leaves a condition out. Dismissed ones are meant only by their number. */
export interface QuarantineFilter {
  readonly quarantineId: string | null;
  readonly sourceId: string | null;
  readonly reason: string | null;
}

export interface QuarantineCount {
  /** Events: they go back to where a worker decides on them again. */
  readonly events: number;
  /** Input from reads that names an order: the order is read again instead. */
  readonly reads: number;
  /** Reads that name no order: nothing can be read again singly. */
  readonly unnamed: number;
  /** The number of entries of each reason. */
  readonly reasons: readonly { readonly reason: string; readonly count: number }[];
  /** Greatest number among them: rows that are quarantined later, by the replay itself, lie beyond. */
  readonly throughId: string | null;
}

/** The condition of a QuarantineFilter, whose values are the first of the statement. */
const CHOSEN = `(state = 'open' or $1::bigint is not null) and ($1::bigint is null or quarantine_id = $1)
  and ($2::text is null or source_id = $2) and ($3::text is null or reason = $3)`;

/** Counts exactly what a replay with this filter would concern now. */
export async function countQuarantined(pool: Pool, filter: QuarantineFilter): Promise<QuarantineCount> {
  const { rows } = await pool.query<QuarantineCount>(
    `select coalesce(sum(events), 0)::int as events, coalesce(sum(reads), 0)::int as reads,
       coalesce(sum(count - events - reads), 0)::int as unnamed, max(last)::text as "throughId",
       coalesce(json_agg(json_build_object('reason', reason, 'count', count) order by reason), '[]') as reasons
     from (
       select reason, count(*), count(inbox_seq) as events, max(quarantine_id) as last,
         count(*) filter (where inbox_seq is null and reference is not null) as reads
       from mirror.quarantine where ${CHOSEN} group by reason) of_reason`,
    filterValues(filter),
  );
  const [count] = rows;
  if (count === undefined) throw new TypeError("a count has one row");
  return count;
}

const ROWS_PER_STATEMENT = 500;

/**
 * Replays all that fit, up to the number `throughId`; returns how many. `notify` gets the inbox positions of the
 * events.
 */
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

/**
 * Takes up to `limit` entries out of the quarantine, oldest first, and processes them again, in one statement: an event
 * awaits a decision again; an order from a read will be read again. Rows beyond `throughId` are not touched, because a
 * replay that fails again would otherwise repeat forever. @internal
 */
export async function replayQuarantined(
  pool: Pool,
  { filter, throughId, limit }: { filter: QuarantineFilter; throughId: string; limit: number },
): Promise<{ seqs: number[]; reads: number }> {
  const { rows } = await pool.query<{ seqs: string[]; reads: number }>(
    `with chosen as (
       select quarantine_id from mirror.quarantine
       where ${CHOSEN} and quarantine_id <= $4::bigint and (inbox_seq is not null or reference is not null)
       order by quarantine_id limit $5 for update skip locked
     ), freed as (
       delete from mirror.quarantine q using chosen where q.quarantine_id = chosen.quarantine_id
       returning q.inbox_seq, q.source_id, q.reference
     ), awaiting as (
       insert into mirror.pending (seq, source_id)
       select inbox_seq, source_id from freed where inbox_seq is not null order by inbox_seq
       on conflict do nothing
     ), requested as (
       insert into mirror.refetches (source_id, reference, reason, replayed)
       select distinct source_id, reference, 'replayed from quarantine', true from freed
       where inbox_seq is null order by source_id, reference
       on conflict (source_id, reference) do update set
         reason = excluded.reason, replayed = true, requested_at = clock_timestamp(),
         next_attempt_at = clock_timestamp(), attempts = 0, failures = 0, last_error = null
     )
     select coalesce(array_agg(inbox_seq::text) filter (where inbox_seq is not null), '{}') as seqs,
       (count(*) filter (where inbox_seq is null))::int as reads
     from freed`,
    [...filterValues(filter), throughId, limit],
  );
  const [row] = rows;
  return { seqs: (row?.seqs ?? []).map(Number), reads: row?.reads ?? 0 };
}

/** The values that CHOSEN reads. */
function filterValues({ quarantineId, sourceId, reason }: QuarantineFilter): (string | null)[] {
  return [quarantineId, sourceId, reason];
}

/** Names the part of the quarantine that an action concerns, for the audit log. */
export function describeFilter({ quarantineId, reason }: QuarantineFilter, throughId: string): string {
  return quarantineId === null
    ? `quarantine ${reason ?? "all reasons"}, through ${throughId}`
    : `quarantine ${quarantineId}`;
}

/**
 * Dismisses quarantined input up to the number `throughId`, for a reason given by a person, and records that in the
 * audit log: both or neither. Returns the number of entries. They are kept and visible, and raise no alarm any more;
 * what is claimed stays as it is, so orders that a read could not show remain exceptions.
 */
export async function dismissQuarantined(
  pool: Pool,
  dismissal: {
    actor: Pick<OpsAction, "role" | "person">;
    filter: QuarantineFilter;
    throughId: string;
    target: string;
    because: string;
  },
): Promise<number> {
  const { actor, filter, throughId, target, because } = dismissal;
  const { rows } = await pool.query<{ dismissed: number }>(
    `with dismissed as (
       update mirror.quarantine
       set state = 'dismissed', dismissed_at = clock_timestamp(), dismissed_because = $5
       where ${CHOSEN} and quarantine_id <= $4::bigint returning 1
     ), noted as (
       insert into mirror.ops_actions (role, person, action, source_id, target, note, affected)
       select $6, $8, 'dismiss', $2, $7, $5, count(*) from dismissed
     )
     select count(*)::int as dismissed from dismissed`,
    [...filterValues(filter), throughId, because, actor.role, target, actor.person],
  );
  return rows[0]?.dismissed ?? 0;
}

/**
 * Removes what reads could not apply once a later read has shown its order, or that there is none: nothing waits for a
 * person any more, and the order is no exception.
 */
export async function endAnswered(pool: Pool, sourceId: string): Promise<void> {
  await pool.query(
    `delete from mirror.quarantine q using mirror.orders o
     where q.source_id = $1 and q.inbox_seq is null and o.source_id = q.source_id and o.reference = q.reference
       and o.horizon is not null and o.observed_at > mirror.nanos_of(q.quarantined_at)`,
    [sourceId],
  );
}
