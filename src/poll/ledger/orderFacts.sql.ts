import type { Pool } from "../../database/database.ts";

/** What a pass begins with. Positions, versions and numbers are decimal text, forwarded unchanged. */
export interface FactsPass {
  /** Batches so far; the next one is committed only if this is still so. */
  readonly step: string;
  /** Nothing has changed since the last pass: the row of progress says what is proved now, and there is no batch to write. */
  readonly done: boolean;
  /** The change feed can be read up to this position; null if `done`. */
  readonly fence: string | null;
  /** The last position that was given out when the pass began. */
  readonly newest: string;
  /** The last number of an observation that was given out. */
  readonly newestObservation: string;
  readonly historySince: string | null;
  /** What was proved when the pass began; null: nothing. */
  readonly safeThrough: string | null;
  readonly breachId: string;
}

export interface FactsBatch {
  /** False: another process has written a batch meanwhile, and this one wrote nothing. */
  readonly written: boolean;
  /** Changes, late states and orders that were examined. */
  readonly read: number;
  /** True when order_facts has everything that was proved when the pass began. */
  readonly done: boolean;
  /** For the next batch. */
  readonly fence: string;
}

/** As in retention: what has a smaller number than such an observation is committed, or never will be. */
const SETTLED = "h.seen_at < now() - interval '10 minutes'";

/** Late states `h` of source $1 behind the place `after` that its rows do not include, or that are settled. */
const lateStates = (after: string) => `h.source_id = $1 and h.verdict = 'stale' and h.history_id > ${after}
    and (${SETTLED} or not exists (
      select from mirror.order_facts f
      where f.source_id = $1 and f.reference = h.reference and f.history_id >= h.history_id))`;

/*
 * Without new changes, late states and missing rows, the rows have everything that is proved: its changes were committed
 * before the proof moved, so this statement would see them. Then it also records the proof, and reads no fence, which
 * costs more than all the rest. Otherwise the proof is read before the fence and the newest position: its changes have
 * positions up to these.
 */
const BEGIN = `
with known as materialized (
  select p.*, coalesce(p.walked_to is null and p.walked_at >= now() - interval '1 day', false)
    and not exists (select from mirror.feed_removals r where r.source_id = $1 and r.position > p.position)
    and not exists (select from mirror.changes c where c.source_id = $1 and c.position > p.position)
    and not exists (select from mirror.history h where ${lateStates("p.late_state")}) as done
  from mirror.facts_progress p where p.source_id = $1
), begun as (
  insert into mirror.facts_progress (source_id, position)
  select $1, mirror.feed_fence() where not exists (select from known)
  on conflict do nothing returning step
), proof as materialized (
  select p.history_since, p.safe_through,
    (select coalesce(max(breach_id), 0) from mirror.coverage_breaches where source_id = $1) as breach_id
  from (select) as one left join mirror.poll_state p on p.source_id = $1
), recorded as (
  update mirror.facts_progress p set step = p.step + 1,
    history_since = proof.history_since, safe_through = proof.safe_through, breach_id = proof.breach_id
  from known k, proof
  where p.source_id = $1 and p.step = k.step and k.done
    and (p.history_since, p.safe_through, p.breach_id)
      is distinct from (proof.history_since, proof.safe_through, proof.breach_id)
)
select coalesce((select done from known), false) as done,
  coalesce((select step from known), (select step from begun), 0)::text as step,
  history_since::text as "historySince", safe_through::text as "safeThrough", breach_id::text as "breachId",
  coalesce(pg_sequence_last_value('mirror.changes_position_seq'), 0)::text as newest,
  coalesce(pg_sequence_last_value('mirror.history_id'), 0)::text as "newestObservation",
  case when (select done from known) then null else mirror.feed_fence() end::text as fence
from proof`;

/** Times of statuses that retention has removed from the history stay, unless a later read went back behind them. */
const STATUS_TIMES = [
  ["created_at", "= 'created'"],
  ["arrived_for_pickup_at", "= 'arrived_for_pickup'"],
  ["picked_up_at", "= 'picked_up'"],
  ["arrived_for_delivery_at", "= 'arrived_for_delivery'"],
  [
    "other_status_at",
    "not in ('created', 'arrived_for_pickup', 'picked_up', 'arrived_for_delivery', 'cancelled')",
  ],
  ["cancelled_at", "= 'cancelled'"],
] as const;

const COLUMNS = [
  "source_id, reference, history_id, observations, revision, status, branch_id, branch_reference, fleet_name",
  "pickup_time, delivery_time, real_pickup_time, real_delivery_time, updated_at, gone_at, first_seen_via, first_seen_at",
  ...STATUS_TIMES.map(([column]) => column),
  "statuses_by_event, statuses_by_read, corrections",
]
  .join(", ")
  .split(", ");

/*
 * The orders of a batch come from three places: the next changes of the feed (fresh); states that arrived after younger
 * ones and are therefore not in the feed (late); and, when a source is new, when retention removed changes that had not
 * been read, and once a day, all orders, of which those without a current row are computed (visited).
 *
 * Numbers of observations are not committed in their order. So late states are taken as soon as they are seen, but the
 * place up to which they are done moves only behind observations that are so old that no smaller number can follow.
 *
 * Each row is computed from the whole history of its order. Of an order whose old observations retention has removed
 * (kept), what they showed is taken from the present row, and only younger observations are counted. The batch writes
 * only if nobody else has written one since its step was read: an older snapshot never overwrites a younger one.
 */
const ADVANCE = `
with state as materialized (
  select p.*, coalesce(r.position, 0) as removed, coalesce(r.position > p.position, false) as missed,
    case
      when r.position > p.position then ''
      when p.walked_to is null and p.walked_at < now() - interval '1 day' then ''
      else p.walked_to
    end as walk_after
  from mirror.facts_progress p left join mirror.feed_removals r using (source_id)
  where p.source_id = $1 and p.step = $2::bigint
), fresh as materialized (
  select c.position, c.reference from mirror.changes c
  where c.source_id = $1 and c.position > (select position from state) and c.position <= $4::bigint
  order by c.position limit $3
), late as materialized (
  select h.history_id, h.reference, ${SETTLED} as settled from mirror.history h
  where ${lateStates("(select late_state from state)")}
  order by h.history_id limit $3
), settled as (
  select coalesce((
      select min(h.history_id) - 1 from mirror.history h
      where h.source_id = $1 and h.verdict = 'stale' and h.history_id > (select late_state from state)
        and h.history_id < latest and not ${SETTLED}),
    latest) as through
  from (select max(history_id) as latest from late where settled) found
), visited as materialized (
  select o.reference, o.revision from mirror.orders o
  where o.source_id = $1 and o.reference > (select walk_after from state)
  order by o.reference limit $3
), concerned as materialized (
  select reference from fresh
  union select reference from late
  union
  select v.reference from visited v
  where not exists (
    select from mirror.order_facts f
    where f.source_id = $1 and f.reference = v.reference and f.revision = v.revision)
), examined as (
  select (select count(*) from fresh) as fresh, (select count(*) from late) as late,
    (select count(*) from visited) as visited
), moved as (
  update mirror.facts_progress p set
    step = p.step + 1,
    position = greatest(p.position, s.removed, (select max(position) from fresh)),
    late_state = coalesce((select through from settled), p.late_state),
    walked_to = case when e.visited < $3 then null else (select max(reference) from visited) end,
    walked_at = case when s.walk_after is not null and e.visited < $3 then now() when not s.missed then p.walked_at end,
    history_since = case when done.so then $6::bigint else p.history_since end,
    safe_through = case when done.so then $7::bigint else p.safe_through end,
    breach_id = case when done.so then $8::bigint else p.breach_id end
  from state s, examined e, lateral (
    select $4::bigint >= $5::bigint and greatest(e.fresh, e.late) < $3
      and (e.visited < $3 or (s.walked_at is not null and not s.missed)) as so) done
  where p.source_id = s.source_id and p.step = s.step
  returning done.so as done
), computed as (
  select o.source_id, o.reference, o.revision, o.status,
    coalesce(o.branch_id, (
      select b.branch_id from mirror.branches b
      where b.source_id = o.source_id and b.reference = o.branch_reference
      order by b.closed_at desc nulls first, b.branch_id limit 1)) as branch_id,
    o.branch_reference, o.fleet_name, o.pickup_time, o.delivery_time, o.real_pickup_time, o.real_delivery_time,
    o.updated_at, o.gone_at, o.first_seen_via, o.first_seen_at,
    coalesce(h.last, f.history_id, 0) as history_id,
    case when k.kept then f.observations + h.unknown else h.observations end as observations,
    case when k.kept then f.corrections + h.corrections_unknown else h.corrections end as corrections,
    case when k.kept then f.statuses_by_event + h.by_event_unknown else h.by_event end as statuses_by_event,
    case when k.kept then f.statuses_by_read + h.by_read_unknown else h.by_read end as statuses_by_read,
    ${STATUS_TIMES.map(
      ([column]) => `least(mirror.instant_at(h.${column}),
      case when k.kept and f.${column} <= o.updated_at then f.${column} end) as ${column}`,
    ).join(",\n    ")}
  from concerned
  cross join lateral (
    select * from mirror.orders where source_id = $1 and reference = concerned.reference limit 1) o
  left join lateral (
    select * from mirror.order_facts where source_id = $1 and reference = concerned.reference limit 1) f on true
  cross join lateral (
    select max(last) as last, coalesce(sum(n), 0) as observations, coalesce(sum(n_unknown), 0) as unknown,
      coalesce(sum(corrected), 0) as corrections, coalesce(sum(corrected_unknown), 0) as corrections_unknown,
      count(*) filter (where counted and via = 'webhook') as by_event,
      count(*) filter (where counted and via <> 'webhook') as by_read,
      count(*) filter (where counted_unknown and via = 'webhook') as by_event_unknown,
      count(*) filter (where counted_unknown and via <> 'webhook') as by_read_unknown,
      ${STATUS_TIMES.map(([column, is]) => `min(entered) filter (where holds and status ${is}) as ${column}`).join(",\n      ")}
    from (
      select t.*, holds and status <> 'created' as counted,
        holds and status <> 'created' and first > f.history_id and entered > mirror.nanos_of(f.updated_at) as counted_unknown
      from (
        select i.status, i.verdict <> 'gone' and not i.refuted as holds, min(i.version) as entered,
          min(i.history_id) as first, max(i.history_id) as last, (array_agg(i.via order by i.history_id))[1] as via,
          count(*) as n, count(*) filter (where i.history_id > f.history_id) as n_unknown,
          count(*) filter (where i.verdict = 'corrected') as corrected,
          count(*) filter (where i.verdict = 'corrected' and i.history_id > f.history_id) as corrected_unknown
        from mirror.history i
        where i.source_id = $1 and i.reference = concerned.reference
          and i.verdict in ('applied', 'corrected', 'stale', 'gone')
        group by 1, 2) t) s
  ) h
  cross join lateral (select h.observations - h.unknown < f.observations is true as kept) k
), written as (
  insert into mirror.order_facts as f (${COLUMNS.join(", ")})
  select ${COLUMNS.join(", ")} from computed where exists (select from moved) order by reference
  on conflict (source_id, reference) do update set
    ${COLUMNS.slice(2)
      .map((column) => `${column} = excluded.${column}`)
      .join(", ")}
  where (${COLUMNS.map((column) => `f.${column}`).join(", ")})
    is distinct from (${COLUMNS.map((column) => `excluded.${column}`).join(", ")})
)
select exists (select from moved) as written, coalesce((select done from moved), false) as done,
  (select (fresh + late + visited)::integer from examined) as read, mirror.feed_fence()::text as fence`;

/**
 * Begins a pass, which includes what has changed since the last one, and also ends it if nothing has. The first pass of a
 * source makes its progress.
 */
export async function beginFacts(pool: Pool, sourceId: string): Promise<FactsPass> {
  const { rows } = await pool.query<FactsPass>(BEGIN, [sourceId]);
  const [row] = rows;
  if (row === undefined) throw new TypeError("a statement without a condition returns a row");
  return row;
}

/**
 * Computes the rows of the next orders, at most `limit` from each place where they are found. May be repeated, killed or
 * run by two processes at once: each batch is committed with its progress, or not at all.
 */
export async function advanceFacts(
  pool: Pool,
  sourceId: string,
  pass: Omit<FactsPass, "done" | "newestObservation"> & { readonly limit: number },
): Promise<FactsBatch> {
  const { step, fence, newest, historySince, safeThrough, breachId, limit } = pass;
  const values = [sourceId, step, limit, fence, newest, historySince, safeThrough, breachId];
  const { rows } = await pool.query<FactsBatch>(ADVANCE, values);
  const [row] = rows;
  if (row === undefined) throw new TypeError("a statement without a condition returns a row");
  return row;
}
