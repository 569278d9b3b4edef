import type { Via } from "../domain/order/observation.ts";
import type { Queryable } from "../database/database.ts";
import { ERASED_BODY } from "../retention/erasure.sql.ts";
import { startsOf } from "../database/packedBytes.ts";

export const VERDICTS = ["applied", "confirmed", "stale", "duplicate", "ignored", "quarantined"] as const;
/** What was decided on an observation; the words are explained at mirror.history.verdict. */
export type Verdict = (typeof VERDICTS)[number];

/**
 * One observation, or one event without an order, in the form that the statement reads. Bigints are decimal text; so are
 * times, in microseconds since 1970, which is what timestamptz holds; exact from 1685 to 2255.
 */
export interface BatchRow {
  /** Place in the batch, 0 first; comes back with the outcome. */
  readonly n: number;
  readonly source_id: string;
  readonly via: Via;
  /** Set for an event: its pending row is claimed, and nothing is done when another worker has it. */
  readonly inbox_seq: number | null;
  readonly event_id: string | null;
  readonly event_type: string | null;
  /** Decided beforehand: there is no order to apply. */
  readonly verdict: "ignored" | "quarantined" | null;
  readonly reason: string | null;
  readonly detail: string | null;
  /** The greatest observation of its order in this batch: the only one that is tried on the order. */
  readonly greatest: boolean;
  /** Not the greatest, but the same version and content. */
  readonly repeats_greatest: boolean;
  /** Not the greatest, same version, other content. */
  readonly conflicts_greatest: boolean;
  readonly reference: string | null;
  /** Where no order was read: what may be the reference of one whose personal data was erased. */
  readonly names: readonly string[] | null;
  readonly version: string | null;
  readonly settled: boolean | null;
  readonly observed_at: string | null;
  readonly rank: number | null;
  /** Hex. */
  readonly hash: string | null;
  readonly external_order_id: string | null;
  readonly status: string | null;
  readonly livemode: boolean | null;
  readonly fleet_name: string | null;
  readonly branch_id: string | null;
  readonly branch_reference: string | null;
  readonly schedule_mode: string | null;
  readonly resolved_pickup_time: string | null;
  readonly resolved_delivery_time: string | null;
  readonly resolved_basis: string | null;
  readonly pickup_time: string | null;
  readonly delivery_time: string | null;
  readonly real_pickup_time: string | null;
  readonly real_delivery_time: string | null;
  readonly updated_at: string | null;
  readonly raw: string | null;
}

export interface BatchOutcome {
  readonly n: number;
  readonly verdict: Verdict;
  readonly conflict: boolean;
  readonly previous_status: string | null;
  readonly revision: number | null;
}

/**
 * The columns that travel as JSON, with their types in the database. Times go as numbers: to write and read them as dates
 * costs both sides three times as much.
 */
const COLUMN_TYPES: Readonly<Record<Exclude<keyof BatchRow, "raw">, string>> = {
  n: "integer",
  source_id: "text",
  via: "text",
  inbox_seq: "bigint",
  event_id: "text",
  event_type: "text",
  verdict: "text",
  reason: "text",
  detail: "text",
  greatest: "boolean",
  repeats_greatest: "boolean",
  conflicts_greatest: "boolean",
  reference: "text",
  names: "text[]",
  version: "bigint",
  settled: "boolean",
  observed_at: "bigint",
  rank: "smallint",
  hash: "text",
  external_order_id: "text",
  status: "text",
  livemode: "boolean",
  fleet_name: "text",
  branch_id: "text",
  branch_reference: "text",
  schedule_mode: "text",
  resolved_pickup_time: "timestamptz",
  resolved_delivery_time: "timestamptz",
  resolved_basis: "text",
  pickup_time: "timestamptz",
  delivery_time: "timestamptz",
  real_pickup_time: "timestamptz",
  real_delivery_time: "timestamptz",
  updated_at: "timestamptz",
};
const ROW_COLUMNS = Object.keys(COLUMN_TYPES) as (keyof typeof COLUMN_TYPES)[];
const isTime = (column: keyof typeof COLUMN_TYPES) => COLUMN_TYPES[column] === "timestamptz";
const GIVEN_COLUMNS = ROW_COLUMNS.map((name) => `${name} ${isTime(name) ? "bigint" : COLUMN_TYPES[name]}`);
const asRead = (name: keyof typeof COLUMN_TYPES) =>
  isTime(name) ? `timestamptz 'epoch' + r.${name} * interval '1 microsecond' as ${name}` : `r.${name}`;

/*
 * The parts, in the order in which they matter:
 * - claimed: takes the events' pending rows. Rows locked by another worker are skipped, never waited for: that
 *   worker decides them, or the sweep does.
 * - subject: what is left to decide, with what is stored of an order (kept) or put into quarantine (parked_raw): each is
 *   made once, since reading JSON is dear. Of an order whose personal data was erased it is only the redacted rest, and
 *   the event's body in the inbox goes too (blanked); so does input without an order that names such a one. eraseOrder shuts this statement out meanwhile.
 * - stored: the orders as the statement began, for the wording of verdicts. The limit has each looked up by its key: a
 *   join planned while the table was empty would read all of it, until the next analysis.
 * - contender: leaves out what has lost already (keys only grow), because an upsert that loses still locks its row,
 *   which is a write.
 * - upserted: the guard of domain/order/observation.ts `decide`, in SQL. Rows come sorted, so batches cannot deadlock.
 *   The state before an update is carried in the row (previous_*), because only the locked row knows it for sure.
 *   So is feed_tx: this transaction may have begun before the one that changed the order last, and the feed is read
 *   by transaction.
 * - a read that changes nothing leaves no trace; an event always leaves its outcome.
 */
const STATEMENT = `
with incoming as materialized (
  select ${ROW_COLUMNS.map(asRead).join(", ")}, decode(r.hash, 'hex') as hash_bytes, nextval('mirror.history_id') as history_id,
    convert_from(substring($2::bytea from ($3::int[])[r.n + 1] for ($4::int[])[r.n + 1]), 'UTF8') as raw
  from json_to_recordset($1::json) as r (${GIVEN_COLUMNS.join(", ")})
),
claimed as (
  delete from mirror.pending
  where seq = any (array(
    select pending.seq from mirror.pending
    where pending.seq = any (array(select inbox_seq from incoming where inbox_seq is not null))
    order by pending.seq for update skip locked))
  returning seq
),
subject as materialized (
  select i.*, e.reference is not null as erased,
    case
      when i.verdict is not null then null
      when e.reference is null then i.raw::json
      else mirror.redact_order(i.raw::json, i.reference, i.status)
    end as kept,
    case
      when i.verdict is distinct from 'quarantined' then null
      when e.reference is null then convert_to(i.raw, 'UTF8')
      else convert_to(json_build_object('reference', i.reference, 'erased', true)::text, 'UTF8')
    end as parked_raw
  from incoming i left join lateral (select reference from mirror.erasures
    where source_id = i.source_id and reference = any (coalesce(i.names, array[i.reference])) limit 1) e on true
  where i.inbox_seq is null or i.inbox_seq in (select seq from claimed)
),
stored as materialized (
  select o.*
  from (select distinct source_id, reference from subject where verdict is null) s
  cross join lateral (
    select o.source_id, o.reference, o.version, o.settled, o.observed_at, o.rank, o.hash
    from mirror.orders o where o.source_id = s.source_id and o.reference = s.reference limit 1) o
),
contender as (
  select s.* from subject s left join stored b using (source_id, reference)
  where s.greatest and (b.reference is null or (
    (s.version, s.settled, s.observed_at, s.rank, s.hash_bytes)
      > (b.version, b.settled, b.observed_at, b.rank, b.hash)
    and not (b.settled and b.version = s.version and b.hash = s.hash_bytes)))
),
upserted as (
  insert into mirror.orders as o (
    source_id, reference, version, settled, observed_at, rank, hash, external_order_id, status, livemode,
    fleet_name, branch_id, branch_reference, schedule_mode, resolved_pickup_time, resolved_delivery_time,
    resolved_basis, pickup_time, delivery_time, real_pickup_time, real_delivery_time, updated_at, raw,
    history_id, first_seen_via)
  select
    source_id, reference, version, settled, observed_at, rank, hash_bytes,
    case when not erased then external_order_id end, status, livemode,
    fleet_name, branch_id, branch_reference, schedule_mode, resolved_pickup_time, resolved_delivery_time,
    resolved_basis, pickup_time, delivery_time, real_pickup_time, real_delivery_time, updated_at, kept,
    history_id, via
  from contender order by source_id, reference
  on conflict (source_id, reference) do update set
    version = excluded.version, settled = excluded.settled, observed_at = excluded.observed_at,
    rank = excluded.rank, hash = excluded.hash, external_order_id = excluded.external_order_id,
    status = excluded.status, livemode = excluded.livemode, fleet_name = excluded.fleet_name,
    branch_id = excluded.branch_id, branch_reference = excluded.branch_reference,
    schedule_mode = excluded.schedule_mode, resolved_pickup_time = excluded.resolved_pickup_time,
    resolved_delivery_time = excluded.resolved_delivery_time, resolved_basis = excluded.resolved_basis,
    pickup_time = excluded.pickup_time, delivery_time = excluded.delivery_time,
    real_pickup_time = excluded.real_pickup_time, real_delivery_time = excluded.real_delivery_time,
    updated_at = excluded.updated_at,
    raw = case when o.hash = excluded.hash then o.raw else excluded.raw end,
    revision = case when o.hash = excluded.hash then o.revision else o.revision + 1 end,
    history_id = case when o.hash = excluded.hash then o.history_id else excluded.history_id end,
    previous_history_id = case when o.hash = excluded.hash then o.previous_history_id else o.history_id end,
    previous_status = case when o.hash = excluded.hash then o.previous_status else o.status end,
    changed_at = case when o.hash = excluded.hash then o.changed_at else excluded.changed_at end,
    feed_tx = case when o.hash = excluded.hash then o.feed_tx else greatest(o.feed_tx, excluded.feed_tx) end
  where (excluded.version, excluded.settled, excluded.observed_at, excluded.rank, excluded.hash)
      > (o.version, o.settled, o.observed_at, o.rank, o.hash)
    and not (o.settled and o.version = excluded.version and o.hash = excluded.hash)
  returning source_id, reference, history_id, revision, previous_history_id, previous_status, feed_tx
),
decided as materialized (
  select s.*, u.revision, u.previous_history_id, u.previous_status, u.feed_tx,
    case
      when s.verdict is not null then s.verdict
      when s.greatest and u.history_id = s.history_id then 'applied'
      when s.greatest and u.history_id is not null then 'confirmed'
      when s.repeats_greatest then 'duplicate'
      when b.version = s.version and b.hash = s.hash_bytes then 'duplicate'
      else 'stale'
    end as outcome,
    s.verdict is null
      and (s.conflicts_greatest or coalesce(b.version = s.version and b.hash <> s.hash_bytes, false)) as conflict,
    s.settled or coalesce(b.settled, false) as resolved
  from subject s
  left join upserted u on s.greatest and u.source_id = s.source_id and u.reference = s.reference
  left join stored b on b.source_id = s.source_id and b.reference = s.reference
),
parked_before as (
  select source_id, raw_hash from mirror.quarantine
  where inbox_seq is null and (source_id, raw_hash) in (
    select source_id, sha256(parked_raw) from decided where outcome = 'quarantined')
),
recorded as (
  insert into mirror.history (
    history_id, source_id, reference, via, verdict, conflict, reason, inbox_seq, event_id, event_type,
    version, settled, observed_at, rank, hash, status, previous_status, raw)
  select
    history_id, source_id, reference, via, outcome, conflict, reason, inbox_seq, event_id, event_type,
    version, settled, observed_at, rank, hash_bytes, status, case when outcome = 'applied' then previous_status end,
    case when outcome in ('applied', 'stale') or conflict then kept end
  from decided
  where inbox_seq is not null
    or (outcome = 'quarantined' and (source_id, sha256(parked_raw)) not in (select * from parked_before))
    or (outcome <> 'quarantined' and (conflict or outcome <> 'duplicate'))
),
announced as (
  insert into mirror.changes (
    source_id, reference, revision, history_id, previous_history_id, status, previous_status, via,
    event_id, event_type, version, tx)
  select
    source_id, reference, revision, history_id, previous_history_id, status, previous_status, via,
    event_id, event_type, version, feed_tx
  from decided where outcome = 'applied' order by n
),
parked as (
  insert into mirror.quarantine (source_id, via, inbox_seq, reference, reason, detail, raw)
  select source_id, via, inbox_seq, reference, reason, detail,
    case when inbox_seq is null then parked_raw end
  from decided where outcome = 'quarantined' order by n
  on conflict do nothing
),
blanked as (
  update mirror.inbox set body = convert_to('${ERASED_BODY}', 'UTF8')
  where seq = any (array(select inbox_seq from decided where erased and inbox_seq is not null))
),
asked_again as (
  insert into mirror.refetches (source_id, reference, reason)
  select distinct source_id, reference, 'conflict' from decided where conflict and not resolved
  on conflict (source_id, reference) do nothing
)
select n, outcome as verdict, conflict, previous_status, revision from decided order by n`;

/**
 * Decides on a batch in one statement: claims events, upserts the greatest observation of each order under the
 * guard, and writes history, change feed, quarantine and refetch requests. Returns the outcome of each row that
 * was decided here; an event that another worker holds, or that was decided before, is left out.
 *
 * At most one row per order may be `greatest`. Rejects with the database's error, and then nothing was written.
 */
export async function applyBatch(database: Queryable, rows: readonly BatchRow[]): Promise<BatchOutcome[]> {
  if (rows.length === 0) return [];
  const result = await database.query<BatchOutcome>({
    name: "apply-batch",
    text: STATEMENT,
    values: packRows(rows),
  });
  return result.rows;
}

/**
 * The rows as JSON, without columns that are null in all of them, and their snapshots as bytes that the server cuts
 * apart: as text within the JSON each snapshot would be escaped here and read twice there, a tenth of what applying
 * an event costs Postgres.
 */
function packRows(rows: readonly BatchRow[]): unknown[] {
  const columns = ROW_COLUMNS.filter((column) => rows.some((row) => row[column] !== null));
  const lengths = rows.map(({ raw }) => (raw === null ? null : Buffer.byteLength(raw)));
  const starts = startsOf(lengths.map((length) => length ?? 0));
  const raws = Buffer.from(rows.map(({ raw }) => raw ?? "").join(""));
  return [JSON.stringify(rows, columns), raws, starts, lengths];
}
