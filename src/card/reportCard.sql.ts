import type { Captures } from "../domain/captureRecapture.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Window } from "../domain/window/window.ts";
import { queryInstants } from "../database/columns.ts";
import type { Pool } from "../database/database.ts";

/** Changes with a delay up to a bound, and above the next lower one. */
export interface DelayCount {
  readonly upToSeconds: number;
  readonly changes: number;
}

/** What the mirror has counted about a provider in a period. */
export interface ProviderFigures {
  readonly provider: string;
  /** The database's clock. */
  readonly now: Instant;
  readonly createdAt: Instant;
  /** Before this instant observations may have been removed; null: none was. */
  readonly observedSince: Instant | null;
  /** Delays of all events that announced a change of status, and how many of them a read had preceded. */
  readonly delays: readonly DelayCount[];
  readonly late: number;
  /** Changes that a read found and no event announced, of statuses that events announce: until the grace period is over. */
  readonly waiting: number;
  /** The same after the grace period. */
  readonly lost: number;
  /** Changes that a read found, of statuses that no event has ever announced. */
  readonly notAnnounced: number;
  readonly refuted: number;
  readonly requests: number;
  readonly refused: number;
  /** Ages at which the list showed changes that an earlier read of their window had missed. */
  readonly lateCommits: readonly DelayCount[];
  readonly listed: number;
  readonly breaches: number;
  /** As last measured, in words; null before. */
  readonly clock: string | null;
  /** Steps of orders: an order reaches a status that the provider announces. First: by events. Second: by polling. */
  readonly steps: Captures;
}

const MONTH = `
with period as (
  select mirror.instant_at($2::bigint) as starts, mirror.instant_at($3::bigint) as ends
), days as (
  select figure, sum(amount)::float8 as amount from (
    select figure, amount from mirror.provider_days, period
    where source_id = $1 and day >= (starts at time zone 'UTC')::date and day < (ends at time zone 'UTC')::date
    union all
    select f.figure, f.amount from mirror.provider_requests r
    cross join period cross join lateral (values ('requests', r.requests), ('refused', r.refused)) f (figure, amount)
    where r.source_id = $1 and r.minute >= starts and r.minute < ends
    union all
    select u.state, count(*) from mirror.unannounced_changes u, period
    where u.source_id = $1 and u.found_at >= starts and u.found_at < ends group by u.state
  ) counted group by figure
), delays as (
  select up_to_seconds, sum(events)::float8 as events, sum(events) filter (where late)::float8 as late
  from mirror.event_delays, period
  where source_id = $1 and hour >= starts and hour < ends group by up_to_seconds
), shown as (
  select seen_seconds, missed_seconds > 0 as late, sum(changes)::float8 as changes
  from mirror.arrivals, period
  where source_id = $1 and hour >= starts and hour < ends group by seen_seconds, missed_seconds > 0
), steps as (
  -- An event is expected within a day. A read that follows it in the same state leaves a row, too: it confirms it.
  select bool_or(h.via = 'webhook') as announced, bool_or(h.via = 'poll') as polled
  from mirror.history h, period
  where h.source_id = $1 and h.seen_at >= starts and h.seen_at < ends + interval '1 day'
    and h.version >= $2::bigint and h.version < $3::bigint and not h.refuted
    and h.via in ('webhook', 'poll') and h.verdict in ('applied', 'corrected', 'confirmed', 'stale', 'duplicate')
    and h.status in (select a.status from mirror.announced_statuses a where a.source_id = $1)
  group by h.reference, h.status
)
select coalesce(s.provider, s.base_url) as provider, mirror.nanos_of(clock_timestamp()) as now,
  mirror.nanos_of(s.created_at) as "createdAt",
  (select mirror.nanos_of(coalesce(h.seen_at, clock_timestamp())) from mirror.retention_walks w
   left join lateral (select seen_at from mirror.history where history_id > w.position order by history_id limit 1) h on true
   where w.walk = 'history') as "observedSince",
  coalesce((select json_agg(json_build_object('upToSeconds', up_to_seconds, 'changes', events) order by up_to_seconds)
    from delays), '[]') as delays,
  coalesce((select sum(late) from delays), 0)::float8 as late,
  coalesce((select amount from days where figure = 'waiting'), 0) as waiting,
  coalesce((select amount from days where figure = 'lost'), 0) as lost,
  coalesce((select amount from days where figure = 'not_announced'), 0) as "notAnnounced",
  (select count(*)::float8 from mirror.history h, period
   where h.source_id = $1 and h.via = 'webhook' and (h.refuted or h.verdict = 'refuted')
     and h.seen_at >= starts and h.seen_at < ends) as refuted,
  coalesce((select amount from days where figure = 'requests'), 0) as requests,
  coalesce((select amount from days where figure = 'refused'), 0) as refused,
  coalesce((select json_agg(json_build_object('upToSeconds', seen_seconds, 'changes', changes) order by seen_seconds)
    from shown where late), '[]') as "lateCommits",
  coalesce((select sum(changes) from shown), 0)::float8 as listed,
  (select count(*)::float8 from mirror.coverage_breaches b, period
   where b.source_id = $1 and b.found_at >= starts and b.found_at < ends) as breaches,
  (select value from mirror.provider_behaviour p where p.source_id = $1 and p.aspect = 'clock') as clock,
  (select json_build_object('first', count(*) filter (where announced), 'second', count(*) filter (where polled),
    'both', count(*) filter (where announced and polled)) from steps) as steps
from mirror.sources s where s.source_id = $1`;

/** The figures of a source in whole days of UTC; undefined if there is no such source. */
export async function readProviderFigures(
  pool: Pool,
  { sourceId, since, until }: Window & { readonly sourceId: string },
): Promise<ProviderFigures | undefined> {
  const [figures] = await queryInstants<ProviderFigures>(pool, MONTH, [sourceId, since, until]);
  return figures;
}
