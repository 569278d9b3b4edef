import { addSeconds, type Instant } from "../domain/order/instant.ts";
import type { Via } from "../domain/order/observation.ts";
import { keyOf, unlessAhead } from "./applyBatch.sql.ts";
import { queryInstants, type Pool } from "../database/database.ts";

/** A single read that found no order. */
export interface Absence {
  readonly sourceId: string;
  /** The reference that was asked for. */
  readonly reference: string;
  readonly via: Exclude<Via, "webhook">;
  /** The instant up to which the read shows every change; see `horizonOf`. */
  readonly horizon: Instant;
  readonly requestedAt: Instant;
  /** The request time of the first such read in a row; null if this is the first. */
  readonly missedAt: Instant | null;
  readonly marginSeconds: number;
}

/**
 * The effect of an absence:
 * - `gone`: the second answer; the order is no longer served. `unknown`: the same of an order that the mirror never
 *   had;
 * - `confirmed`: the order was gone already;
 * - `missing`: the first answer, or one that is too early or follows on a read that showed the order;
 * - `list_in_doubt`: the list shows none of its orders either, so an outage may look like that;
 * - `claim_stands`: what the mirror has reaches beyond the read's horizon.
 */
export interface AbsenceOutcome {
  readonly outcome: "gone" | "unknown" | "confirmed" | "missing" | "list_in_doubt" | "claim_stands";
  /** The mirror has the order, gone or not. */
  readonly isKnown: boolean;
  /** The request time of the first such read in a row, for `missing`; otherwise null. */
  readonly missedAt: Instant | null;
  /** The instant up to which the mirror's observation reaches, for `claim_stands`; otherwise null. */
  readonly reach: Instant | null;
}

/** For so long a list that shows none of its orders may be an outage; after a day it is how the provider is. */
const LIST_IS_EMPTIED = "list_emptied_at > clock_timestamp() - interval '1 day'";

const STATEMENT = `
with known as materialized (
  select o.version, o.status, o.history_id, o.gone_at, o.horizon, o.observed_at,
    -- An absence is a read without content: what the total order says of its key decides.
    coalesce(${keyOf({ row: "absent", horizon: unlessAhead("absent.horizon"), present: "false" })}
      > ${keyOf({ row: "o", horizon: unlessAhead("o.horizon") })}, false) as is_beaten
  from mirror.orders o
  cross join lateral (
    select $4::bigint as horizon, o.version, true as settled, $5::bigint as observed_at, o.rank, o.hash) absent
  where o.source_id = $1 and o.reference = $2 for update of o
), judged as materialized (
  select case
      when not known.is_beaten and known.gone_at is null then 'claim_stands'
      when known.gone_at is not null then 'confirmed'
      when exists (select from mirror.poll_state where source_id = $1 and ${LIST_IS_EMPTIED}) then 'list_in_doubt'
      -- A read has shown the order since the first answer: the two contradict each other, and this one is the first.
      when $6::bigint is null or known.horizon is not null and known.observed_at > $6 then 'missing'
      -- Too early, or no list was proved since the first answer, so that nobody knows whether the list shows anything.
      when not $7::boolean or not exists (
        select from mirror.coverage where source_id = $1 and proved and begun_at >= $6) then 'missing again'
      when known.version is null then 'unknown'
      else 'gone'
    end as outcome
  from (select) one left join known on true
), moved as (
  update mirror.orders o set
    horizon = $4::bigint, settled = true, observed_at = $5::bigint, gone_at = coalesce(o.gone_at, clock_timestamp()),
    -- The order keeps its last content and history.
    revision = case when o.gone_at is null then o.revision + 1 else o.revision end,
    changed_at = case when o.gone_at is null then clock_timestamp() else o.changed_at end
  from known, judged
  where o.source_id = $1 and o.reference = $2 and known.is_beaten and judged.outcome in ('gone', 'confirmed')
  returning known.gone_at is null as is_news, o.revision, o.status, o.version, known.history_id as previous_history_id
), recorded as (
  insert into mirror.history (
    source_id, reference, via, verdict, horizon, settled, observed_at, previous_status)
  select $1, $2, $3, 'gone', $4::bigint, true, $5::bigint, status
  from moved where is_news
  returning history_id
), announced as (
  -- A change without content: readers of the feed see that the order is gone.
  insert into mirror.changes (
    source_id, reference, revision, history_id, previous_history_id, status, previous_status, via, version, verdict)
  select $1, $2, revision, recorded.history_id, previous_history_id, status, status, $3, version, 'gone'
  from moved, recorded
)
select split_part(outcome, ' ', 1) as outcome, known.version is not null as "isKnown",
  case outcome when 'missing' then $5::bigint when 'missing again' then $6 end as "missedAt",
  case outcome when 'claim_stands' then greatest(${unlessAhead("known.horizon")}, least(known.version, known.observed_at)) end as reach
from judged left join known on true`;

/**
 * Decides on an absence. One answer decides nothing: an order is gone only when a second one, a margin after the first,
 * says so too, while the list is known to show what it should.
 */
export async function applyAbsence(pool: Pool, absence: Absence): Promise<AbsenceOutcome> {
  const { sourceId, reference, via, horizon, requestedAt, missedAt, marginSeconds } = absence;
  const isSecond = missedAt !== null && requestedAt >= addSeconds(missedAt, marginSeconds);
  const values = [sourceId, reference, via, horizon, requestedAt, missedAt, isSecond];
  const [row] = await queryInstants<AbsenceOutcome>(pool, { name: "apply-absence", text: STATEMENT }, values);
  if (row === undefined) throw new TypeError("a decision on an absence has one row");
  return row;
}
