import type { Pool } from "../database/database.ts";
import { HELD, leaseValues, makeLeaseLostError } from "../database/leases.sql.ts";
import type { Lease } from "../database/leases.sql.ts";

/** As in retention: what has a smaller number than such an observation is committed, or never will be. */
const SETTLED = "h.seen_at < now() - interval '10 minutes'";

/** Late states `h` of source $4 behind the place `after` that its rows do not include, or that are settled. */
const lateStates = (after: string) => `h.source_id = $4 and h.verdict = 'stale' and h.history_id > ${after}
    and (${SETTLED} or not exists (
      select from mirror.order_facts f
      where f.source_id = $4 and f.reference = h.reference and f.history_id >= h.history_id))`;

/*
 * Without news, the rows have everything that is proved: its changes were committed before the proof moved, so this
 * statement would see them. Then it also records the proof, and reads no fence, which costs more than all the rest.
 * Otherwise the proof is read before the fence and the newest position: its changes have positions up to these.
 */
const BEGIN = `
with ${HELD}, known as materialized (
  select p.*,
    not exists (select from mirror.sources r where r.source_id = $4 and r.removed_position > p.facts_position)
    and not exists (select from mirror.changes c where c.source_id = $4 and c.position > p.facts_position)
    and not exists (select from mirror.history h where ${lateStates("p.facts_late_state")}) as is_current
  from mirror.poll_state p where p.source_id = $4 and p.facts_position is not null
), proof as materialized (
  select p.history_since, p.safe_through,
    (select coalesce(max(breach_id), 0) from mirror.coverage_breaches where source_id = $4) as breach_id
  from (select) as one left join mirror.poll_state p on p.source_id = $4
), recorded as (
  update mirror.poll_state p set facts_history_since = proof.history_since, facts_safe_through = proof.safe_through,
    facts_breach_id = proof.breach_id
  from held, known, proof
  where p.source_id = $4 and known.is_current
    and (p.facts_history_since, p.facts_safe_through, p.facts_breach_id)
      is distinct from (proof.history_since, proof.safe_through, proof.breach_id)
)
select exists (select from held) as held, history_since as "historySince", safe_through as "safeThrough",
  breach_id as "breachId", coalesce(pg_sequence_last_value('mirror.changes_position_seq'), 0) as newest,
  case when (select is_current from known) then null else mirror.feed_fence() end as fence
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
 * ones and are therefore not in the feed (late); and, when a source is new or retention removed changes that had not been
 * read, all orders whose row is not current (behind).
 *
 * Numbers of observations are not committed in their order. So late states are taken as soon as they are seen, but the
 * place up to which they are done moves only behind observations that are so old that no smaller number can follow.
 *
 * Each row is computed from the whole history of its order. Of an order whose old observations retention has removed
 * (kept), what they showed is taken from the present row, and only younger observations are counted. A former leader
 * writes nothing, and a new one begins its statements after those of the former: an older snapshot never overwrites a
 * younger one.
 */
const ADVANCE = `
with ${HELD}, state as materialized (
  select coalesce(p.facts_position, 0) as position, coalesce(p.facts_late_state, 0) as late_state,
    p.facts_position is null or r.removed_position > p.facts_position as is_behind
  from held join mirror.sources r on r.source_id = $4 left join mirror.poll_state p on p.source_id = $4
), fresh as materialized (
  select c.position, c.reference from mirror.changes c
  where c.source_id = $4 and c.position > (select position from state) and c.position <= $6::bigint
    and not (select is_behind from state)
  order by c.position limit $5
), late as materialized (
  select h.history_id, h.reference, ${SETTLED} as settled from mirror.history h
  where ${lateStates("(select late_state from state)")}
  order by h.history_id limit $5
), settled as (
  select coalesce((
      select min(h.history_id) - 1 from mirror.history h
      where h.source_id = $4 and h.verdict = 'stale' and h.history_id > (select late_state from state)
        and h.history_id < latest and not ${SETTLED}),
    latest) as through
  from (select max(history_id) as latest from late where settled) found
), behind as materialized (
  select o.reference from mirror.orders o
  left join mirror.order_facts f on f.source_id = $4 and f.reference = o.reference
  where o.source_id = $4 and (select is_behind from state) and f.revision is distinct from o.revision
  limit $5
), concerned as materialized (
  select reference from fresh union select reference from late union select reference from behind
), examined as (
  select greatest((select count(*) from fresh), (select count(*) from late), (select count(*) from behind)) < $5 as is_last
), moved as (
  insert into mirror.poll_state as p
    (source_id, facts_position, facts_late_state, facts_history_since, facts_safe_through, facts_breach_id)
  select $4,
    case when s.is_behind then $6::bigint else greatest(s.position, (select max(position) from fresh)) end,
    coalesce((select through from settled), s.late_state),
    proof.history_since, proof.safe_through, coalesce(proof.breach_id, 0)
  from state s cross join examined e left join (
    select $8::bigint as history_since, $9::bigint as safe_through, $10::bigint as breach_id
    where $6::bigint >= $7::bigint) proof on e.is_last
  where e.is_last or not s.is_behind
  on conflict (source_id) do update set
    facts_position = excluded.facts_position, facts_late_state = excluded.facts_late_state,
    facts_history_since = coalesce(excluded.facts_history_since, p.facts_history_since),
    facts_safe_through = coalesce(excluded.facts_safe_through, p.facts_safe_through),
    facts_breach_id = greatest(p.facts_breach_id, excluded.facts_breach_id)
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
    select * from mirror.orders where source_id = $4 and reference = concerned.reference limit 1) o
  left join lateral (
    select * from mirror.order_facts where source_id = $4 and reference = concerned.reference limit 1) f on true
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
        where i.source_id = $4 and i.reference = concerned.reference
          and i.verdict in ('applied', 'corrected', 'stale', 'gone')
        group by 1, 2) t) s
  ) h
  cross join lateral (select h.observations - h.unknown < f.observations is true as kept) k
), written as (
  insert into mirror.order_facts as f (${COLUMNS.join(", ")})
  select ${COLUMNS.join(", ")} from computed order by reference
  on conflict (source_id, reference) do update set
    ${COLUMNS.slice(2)
      .map((column) => `${column} = excluded.${column}`)
      .join(", ")}
  where (${COLUMNS.map((column) => `f.${column}`).join(", ")})
    is distinct from (${COLUMNS.map((column) => `excluded.${column}`).join(", ")})
)
select exists (select from held) as held, (select is_last from examined) as "isLast"`;

interface Pass {
  readonly held: boolean;
  /** The change feed can be read up to this position; null if there is nothing new. */
  readonly fence: string | null;
  /** The last position that was given out when the pass began. */
  readonly newest: string;
  /** What was proved when the pass began. */
  readonly historySince: string | null;
  readonly safeThrough: string | null;
  readonly breachId: string;
}

/**
 * Computes the rows of the next orders, at most `limit` from each place where they are found; resolves with whether more
 * can be read now. What a writer holds that is still open is read by a later call. Throws LeaseLostError.
 */
export async function keepFacts(
  pool: Pool,
  lease: Lease,
  { sourceId, limit }: { sourceId: string; limit: number },
): Promise<boolean> {
  const values = [...leaseValues(lease), sourceId];
  const [pass] = (await pool.query<Pass>(BEGIN, values)).rows;
  if (pass?.held !== true) throw makeLeaseLostError(lease);
  if (pass.fence === null) return false;
  const { fence, newest, historySince, safeThrough, breachId } = pass;
  const { rows } = await pool.query<{ held: boolean; isLast: boolean }>(ADVANCE, [
    ...values,
    limit,
    fence,
    newest,
    historySince,
    safeThrough,
    breachId,
  ]);
  if (rows[0]?.held !== true) throw makeLeaseLostError(lease);
  return !rows[0].isLast;
}
