import type { Instant } from "../domain/order/instant.ts";
import type { Via } from "../domain/order/observation.ts";
import { unlessAhead } from "./applyBatch.sql.ts";
import type { Pool } from "../database/database.ts";

/** A single read that found no order. */
export interface Absence {
  readonly sourceId: string;
  /** The provider's reference of an order in the mirror. */
  readonly reference: string;
  readonly via: Exclude<Via, "webhook">;
  /** How far the read reaches; see `horizonOf`. */
  readonly horizon: Instant;
  readonly requestedAt: Instant;
}

/**
 * The effect of an absence. `confirmed`: the order was gone already. `claim_stands`: the mirror has a claim beyond the
 * read's horizon, or a read that reaches at least as far. `unknown`: the mirror has no such order.
 */
export interface AbsenceOutcome {
  readonly outcome: "gone" | "confirmed" | "claim_stands" | "unknown";
  readonly status: string | null;
  readonly version: Instant | null;
}

/**
 * An absence is a read without content: it beats everything that reaches less far than its horizon, and a claim that
 * reaches equally far. The order keeps its last content and history. The change has no content, so readers of the feed
 * see that the order is gone.
 */
const STATEMENT = `
with known as materialized (
  select version, status, history_id, gone_at,
    coalesce((coalesce(${unlessAhead("horizon")}, version), ${unlessAhead("horizon")} is not null)
      < (${unlessAhead("$4::bigint")}, true), false) as is_beaten
  from mirror.orders where source_id = $1 and reference = $2 for update
), moved as (
  update mirror.orders o set
    horizon = $4::bigint, settled = true, observed_at = $5::bigint, gone_at = coalesce(o.gone_at, clock_timestamp()),
    revision = case when o.gone_at is null then o.revision + 1 else o.revision end,
    previous_history_id = case when o.gone_at is null then o.history_id else o.previous_history_id end,
    changed_at = case when o.gone_at is null then clock_timestamp() else o.changed_at end
  from known
  where o.source_id = $1 and o.reference = $2 and known.is_beaten
  returning known.gone_at is null as is_news, o.revision, o.status, o.version, known.history_id as previous_history_id
), recorded as (
  insert into mirror.history (
    source_id, reference, via, verdict, horizon, settled, observed_at, previous_status)
  select $1, $2, $3, 'gone', $4::bigint, true, $5::bigint, status
  from moved where is_news
  returning history_id
), announced as (
  insert into mirror.changes (
    source_id, reference, revision, history_id, previous_history_id, status, previous_status, via, version, verdict)
  select $1, $2, revision, recorded.history_id, previous_history_id, status, status, $3, version, 'gone'
  from moved, recorded
)
select known.version, known.status,
  case when known.gone_at is not null then 'confirmed' when known.is_beaten then 'gone' else 'claim_stands' end as outcome
from known`;

/** Decides on an absence: stops serving the order, unless the mirror has an observation that beats this read. */
export async function applyAbsence(pool: Pool, absence: Absence): Promise<AbsenceOutcome> {
  const { sourceId, reference, via, horizon, requestedAt } = absence;
  const { rows } = await pool.query<{
    outcome: "gone" | "confirmed" | "claim_stands";
    status: string;
    version: string;
  }>({
    name: "apply-absence",
    text: STATEMENT,
    values: [sourceId, reference, via, horizon, requestedAt],
  });
  const [row] = rows;
  if (row === undefined) return { outcome: "unknown", status: null, version: null };
  return { outcome: row.outcome, status: row.status, version: BigInt(row.version) };
}
