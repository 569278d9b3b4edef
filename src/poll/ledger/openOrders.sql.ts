import type { Pool } from "../../database/database.ts";
import { OPEN_STATUSES } from "../../domain/order/order.ts";

/**
 * Requests re-reads of open orders whose last change and planned delivery are both more than `unchangedHours` ago, but
 * whose last change is at most `lookbackDays` ago: each at most once a day, never-requested ones first. Resolves with
 * how many.
 */
export async function requestOverdueRefetches(
  pool: Pool,
  query: { sourceId: string; unchangedHours: number; lookbackDays: number; limit: number },
): Promise<number> {
  const { rowCount } = await pool.query(
    `with due as materialized (
       select o.reference from mirror.orders o
       left join mirror.open_order_checks c using (source_id, reference)
       where o.source_id = $1 and o.status = any($2::text[]) and o.gone_at is null
         and o.version < mirror.nanos_of(clock_timestamp() - make_interval(hours => $3))
         and o.version > mirror.nanos_of(clock_timestamp() - make_interval(days => $4))
         and coalesce(o.delivery_time, o.resolved_delivery_time, o.updated_at)
           < clock_timestamp() - make_interval(hours => $3)
         and (c.checked_at is null or c.checked_at < clock_timestamp() - interval '1 day')
       order by c.checked_at nulls first, o.version desc limit $5
     ), forgotten as (
       delete from mirror.open_order_checks
       where source_id = $1 and checked_at < clock_timestamp() - make_interval(days => $4)
         and reference not in (select reference from due)
     ), noted as (
       insert into mirror.open_order_checks (source_id, reference)
       select $1, reference from due order by reference
       on conflict (source_id, reference) do update set checked_at = clock_timestamp()
     )
     insert into mirror.refetches (source_id, reference, reason)
     select $1, reference, 'open and unchanged for long' from due order by reference
     on conflict do nothing`,
    [query.sourceId, OPEN_STATUSES, query.unchangedHours, query.lookbackDays, query.limit],
  );
  return rowCount ?? 0;
}
