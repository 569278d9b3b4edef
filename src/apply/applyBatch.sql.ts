import type { Pool, Queryable } from "../database/database.ts";
import type { Instant } from "../domain/order/instant.ts";
import { CLOCK_TRUST_SECONDS } from "../domain/order/observation.ts";
import { ERASED_BODY, ORDER_COLUMN_LIST, PERSONAL_COLUMNS } from "../domain/order/orderColumns.ts";
import {
  GIVEN_LENGTHS,
  GIVEN_ROWS,
  GIVEN_SEQS,
  list,
  packRows,
  ROW_COLUMNS,
  type BatchDecision,
  type BatchRow,
} from "./batchRow.sql.ts";

/** The columns that an observation sets on an order whatever its state, parts of the key first. */
const KEYED = ["horizon", "observed_at", "rank", "hash", ...ORDER_COLUMN_LIST.map(({ column }) => column)];
/** The columns that an observation sets on an order. */
const OVERWRITTEN = ["version", "settled", "updated_at", ...KEYED];
const unlessErased = (column: string) =>
  PERSONAL_COLUMNS.includes(column) ? `case when not erased then ${column} end` : column;

const TRUST_NANOS = `${CLOCK_TRUST_SECONDS}000000000::bigint`;
/**
 * A horizon ahead of the present counts as none. The subquery is evaluated once, and only when a horizon is compared.
 */
export const unlessAhead = (horizon: string) =>
  `case when ${horizon} <= (select mirror.nanos_of(clock_timestamp()) + ${TRUST_NANOS}) then ${horizon} end`;

/**
 * Whether `one` and `other` are the same state of an order: the same content under the same updatedAt, of which one of
 * them may show fewer digits.
 */
const isSameState = (one: string, other: string) =>
  `${one}.hash = ${other}.hash and mirror.same_instant(${one}.version, ${other}.version)`;

/** An observation or an order, with its horizon if that is not ahead of the present. */
interface Keyed {
  readonly row: string;
  readonly horizon: string;
  readonly present?: string | undefined;
}

/** The place of an observation or an order in the total order: `compareKeys` of domain/order/observation.ts. */
export const keyOf = ({ row, horizon, present = `${row}.gone_at is null` }: Keyed) =>
  `(coalesce(${horizon},
        case when ${row}.version > ${row}.observed_at + ${TRUST_NANOS} then ${row}.observed_at else ${row}.version end),
      ${horizon} is not null,
      ${present}, ${row}.version, ${row}.settled, ${row}.observed_at, ${row}.rank, ${row}.hash)`;

/** Whether `incoming` writes anything to `stored`: the opposite of the verdict "none" of `decide`. */
const writes = (incoming: Keyed, stored: Keyed) => `
      ${keyOf(incoming)} > ${keyOf(stored)}
    and not (${stored.row}.gone_at is null and ${isSameState(stored.row, incoming.row)} and case
      when ${stored.row}.version = ${incoming.row}.version
        then ${stored.row}.settled and ${stored.horizon} is not distinct from ${incoming.horizon}
      else coalesce(${stored.horizon} = ${incoming.horizon}, ${incoming.horizon} is null)
        and mirror.last_digit(${stored.row}.version) <= mirror.last_digit(${incoming.row}.version)
    end)`;

/*
 * Each part is started with every execution, and every column of a part is set up again, whether it has rows or not:
 * for one event alone that is most of the work. So there are few parts, and later ones carry only what is still read.
 * Times are the same for all rows of a part, (select clock_timestamp()): block ranges are then written once per batch,
 * and keys share their entry.
 *
 * applyBatch.sql beside this file is the whole statement, to be read and run in psql; applyPlans.test.ts keeps it
 * equal.
 */
const STATEMENT = `
-- Takes the pending rows of the events. A row that another worker has locked is skipped, never waited for: that worker
-- decides on it, or the overdue check does.
with claimed as (
  delete from mirror.pending
  where seq = any (array(
    select pending.seq from mirror.pending where pending.seq = any (${GIVEN_SEQS})
    order by pending.seq for update skip locked))
  returning seq
),
-- What remains to decide. Reading JSON is expensive, so the content to store is made once. While eraseOrder holds its
-- lock, this part waits.
subject as materialized (
  select i.n,
      ${list(ROW_COLUMNS.filter((column) => column !== "raw" && column !== "raw_start").map((column) => `i.${column}`))},
    i.history_id, e.reference is not null as erased,
    -- The content for the order. Of an order whose personal data was erased, only the redacted content is kept.
    case
      when i.verdict is not null then null
      when e.reference is null then i.raw::json
      else mirror.redact_order(i.raw::json, i.reference, i.status)
    end as kept,
    -- The content of an event stays in its body, and the history says only where; that of an erased order does not.
    case when e.reference is null then i.raw_start end as raw_start,
    -- The content for the quarantine.
    case
      when i.verdict is distinct from 'quarantined' then null
      when e.reference is null then convert_to(i.raw, 'UTF8')
      else convert_to(json_build_object('reference', i.reference, 'erased', true)::text, 'UTF8')
    end as quarantined_raw,
    b.version as b_version, b.horizon as b_horizon, b.settled as b_settled, b.hash as b_hash, b.gone_at as b_gone_at,
    -- An observation that has already lost is not tried, because keys only grow, and an upsert that loses still locks its
    -- row, which is a write.
    i.greatest and (b.reference is null or ${writes({ row: "i", horizon: "i.horizon", present: "true" }, { row: "b", horizon: "b.horizon" })}) as contends
  from (
    select (r.place - 1)::int as n,
      ${list(ROW_COLUMNS.map((column) => (column === "horizon" ? `${unlessAhead("r.horizon")} as horizon` : `r.${column}`)))},
      nextval('mirror.history_id') as history_id
    from ${GIVEN_ROWS}
    where r.inbox_seq is null or r.inbox_seq in (select seq from claimed)
  ) i
  left join lateral (
    select reference from mirror.erasures where source_id = i.source_id and reference = i.reference limit 1) e on true
  -- The order when the statement began. The limit makes Postgres look it up by its key: a join that was planned while the
  -- table was empty would read the whole table, until the next analysis.
  left join lateral (
    select o.reference, ${unlessAhead("o.horizon")} as horizon, o.gone_at, o.version, o.settled, o.observed_at, o.rank, o.hash
    from mirror.orders o
    where i.verdict is null and o.source_id = i.source_id and o.reference = i.reference limit 1) b on true
),
-- Writes the orders, sorted, so that two batches cannot deadlock.
upserted as (
  insert into mirror.orders as o (
    source_id, reference,
      ${list(OVERWRITTEN)},
    raw, history_id, first_seen_via, first_seen_at, changed_at)
  select
    source_id, reference,
      ${list(OVERWRITTEN.map(unlessErased))},
    kept, history_id, via, (select clock_timestamp()), (select clock_timestamp())
  from subject where contends order by source_id, reference
  on conflict (source_id, reference) do update set
      ${list(KEYED.map((column) => `${column} = excluded.${column}`))},
    gone_at = null,
    (version, updated_at, raw, settled, revision, history_id, previous_history_id, previous_status, previous_version,
      changed_at) = (
      select case when keeps_version then o.version else excluded.version end,
        case when keeps_version then o.updated_at else excluded.updated_at end,
        case when keeps_version then o.raw else excluded.raw end,
        excluded.settled and (excluded.horizon > o.version or not keeps_version),
        case when same_state then o.revision else o.revision + 1 end,
        case when same_state then o.history_id else excluded.history_id end,
        -- For the verdicts and the feed: only the locked row is certain to have the state before.
        o.history_id, o.status, o.version,
        case when same_state then o.changed_at else excluded.changed_at end
      -- With the same state readers see no change: only the key moves, or updatedAt gets more digits.
      from (select o.gone_at is null and ${isSameState("o", "excluded")} as same_state) seen
      -- The stored version has at least as many digits, and stays. A key must not claim a version beyond its horizon.
      cross join lateral (
        select same_state and (o.version = excluded.version or excluded.horizon >= o.version
          and mirror.last_digit(o.version) < mirror.last_digit(excluded.version)) as keeps_version) kept)
  -- The guard: the greater key stays (compareKeys of domain/order/observation.ts).
  where ${writes({ row: "excluded", horizon: "excluded.horizon" }, { row: "o", horizon: unlessAhead("o.horizon") })}
  returning source_id, reference, version, hash, history_id, revision, previous_history_id, previous_status,
    previous_version
),
-- The verdicts: u is the order that this statement wrote, the columns b_… the order that it found.
decided as materialized (
  select s.n, s.history_id, s.source_id, s.reference, s.via, s.inbox_seq, s.event_id, s.event_type, s.reason, s.detail,
    s.horizon, s.version, s.settled, s.observed_at, s.rank, s.hash, s.status, s.kept, s.raw_start, s.quarantined_raw, s.erased,
    u.revision, u.previous_history_id, u.previous_status, u.previous_version,
    coalesce(u.version, s.b_version) as stored_version,
    case
      when s.verdict is not null then s.verdict
      -- It is the order now.
      when u.history_id = s.history_id and s.version < u.previous_version then 'corrected'
      when u.history_id = s.history_id then 'applied'
      -- It moved only the key of the order. A read that settles the state confirms it; an event never does.
      when s.greatest and s.settled and u.history_id is not null
        and not coalesce(s.b_settled and s.b_hash = s.hash and mirror.same_instant(s.b_version, s.version), false)
        then 'confirmed'
      when coalesce(u.hash, s.b_hash) = s.hash and mirror.same_instant(coalesce(u.version, s.b_version), s.version) then 'duplicate'
      -- A read reaches beyond its version and does not show it. Not one of this batch: its reads are of one instant.
      when coalesce(s.version > s.b_version and coalesce(s.horizon, s.version) <= s.b_horizon, false) then 'refuted'
      else 'stale'
    end as final_verdict,
    -- The same version with other content, whichever of the two was there first.
    s.verdict is null and (
      coalesce(s.b_version = s.version and s.b_hash <> s.hash, false)
      or coalesce(u.version = s.version and u.hash <> s.hash, false)
      or coalesce(u.history_id = s.history_id and u.previous_version = s.version and s.b_gone_at is null, false)) as conflict,
    s.settled or coalesce(s.b_settled, false) as resolved,
    -- To a concurrent writer. Only a read can tell whether the two contradict each other.
    s.contends and u.reference is null as lost,
    -- A change that a proof may have missed; with the same state, the order had been considered gone.
    s.version is distinct from u.previous_version and u.history_id = s.history_id as is_new
  from subject s
  left join upserted u on u.source_id = s.source_id and u.reference = s.reference
),
-- An event always leaves its verdict; a read that changes nothing leaves no row.
recorded as (
  insert into mirror.history (
    history_id, source_id, reference, via, verdict, conflict, reason, inbox_seq, event_id, event_type,
    horizon, version, settled, observed_at, rank, hash, status, previous_status, raw, raw_start, raw_length, seen_at)
  select
    history_id, source_id, reference, via, final_verdict, conflict, reason, inbox_seq, event_id, event_type,
    horizon, version, settled, observed_at, rank, hash, status,
    case when final_verdict in ('applied', 'corrected') then previous_status end,
    case when has_content and raw_start is null then kept end,
    case when has_content then raw_start end,
    case when has_content and raw_start is not null then (${GIVEN_LENGTHS})[n + 1] end,
    (select clock_timestamp())
  from decided
  cross join lateral (select final_verdict in ('applied', 'corrected', 'stale', 'refuted') as has_content) content
  where inbox_seq is not null or final_verdict not in ('quarantined', 'duplicate')
),
-- Positions in the feed are taken after the orders were locked, so those of one order are in the order of its changes.
announced as (
  insert into mirror.changes (
    source_id, reference, revision, history_id, previous_history_id, status, previous_status, via,
    event_id, event_type, version, verdict, changed_at)
  select
    source_id, reference, revision, history_id, previous_history_id, status, previous_status, via,
    event_id, event_type, version, final_verdict, (select clock_timestamp())
  from decided where final_verdict in ('applied', 'corrected') order by n
)
-- A function does what rarely follows from a decision, in this statement and only when needed: as parts of the statement,
-- quarantine, erasure, new reads and breaches took a fifth of the time of a single event, only to start and do nothing.
select n, final_verdict as verdict, conflict, previous_status, stored_version, (
    select mirror.follow_up(json_agg(rare), '${ERASED_BODY}') from (
      select n, history_id, source_id, reference, via, inbox_seq, reason, detail, version, quarantined_raw, erased,
        final_verdict as verdict, conflict, previous_status, is_new, conflict and not resolved or lost as doubtful
      from decided
      where final_verdict = 'quarantined' or conflict or lost or (erased and inbox_seq is not null)
        or (final_verdict = 'refuted' and via = 'webhook')
        -- Nearly every change is younger than everything that is proved. This is asked after the orders were written,
        -- because a proof may have been committed in between.
        or (is_new and version < (select mirror.proved_until(array(select source_id from decided))))
    ) rare having count(*) > 0
  ) as followed_up
from decided order by n`;

/**
 * Decides on a batch in one statement: claims events, upserts the greatest observation of each order under the guard,
 * and writes history, change feed, quarantine and refetch requests. Returns the verdict of each row decided here; an
 * event that another worker holds, or that was decided before, is omitted.
 *
 * At most one row per order may be `greatest`. Rejects with the database's error; then nothing was written.
 */
export async function applyBatch(database: Queryable, rows: readonly BatchRow[]): Promise<BatchDecision[]> {
  if (rows.length === 0) return [];
  const result = await database.query<BatchDecision>({
    name: "apply-batch",
    text: STATEMENT,
    values: packRows(rows),
  });
  return result.rows;
}

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
 * Reads the events among `seqs` that still await a decision, in inbox order: the first ones, whose bodies have at most
 * `bytesMax` bytes together, but at least one.
 *
 * The positions are given for each table separately: given only for the inbox, pending would be scanned from its
 * beginning, over the entries of all decided events that are not vacuumed yet. The length of a body is known without
 * reading it.
 */
export async function readPendingEvents(
  pool: Pool,
  { seqs, bytesMax }: { seqs: readonly number[]; bytesMax: number },
): Promise<PendingEvent[]> {
  type Row = Omit<PendingEvent, "seq" | "databaseNow"> & { seq: string; databaseNow: string };
  const { rows } = await pool.query<Row>({
    name: "read-pending-events",
    text: `
      select seq, source_id as "sourceId", event_id as "eventId", body, mirror.nanos_of(clock_timestamp()) as "databaseNow"
      from (
        select inbox.seq, inbox.source_id, inbox.event_id, inbox.body,
          sum(octet_length(inbox.body)) over (order by inbox.seq rows unbounded preceding) - octet_length(inbox.body) as before
        from mirror.inbox join mirror.pending using (seq)
        where inbox.seq = any ($1::bigint[]) and pending.seq = any ($1::bigint[])
      ) awaiting
      where before < $2
      order by seq`,
    values: [seqs, bytesMax],
  });
  return rows.map((row) => ({ ...row, seq: Number(row.seq), databaseNow: BigInt(row.databaseNow) }));
}
