-- One narrow row per order for reports: what readers ask of the history, kept up to date by the leading poller. Reports
-- read these rows instead of wide orders and their observations.

create table mirror.order_facts (
  source_id               text not null,
  reference               text not null,
  history_id              bigint not null,
  observations            integer not null,
  revision                integer not null,
  status                  text not null,
  branch_id               text,
  branch_reference        text,
  fleet_name              text,
  pickup_time             timestamptz,
  delivery_time           timestamptz,
  real_pickup_time        timestamptz,
  real_delivery_time      timestamptz,
  updated_at              timestamptz not null,
  created_at              timestamptz,
  arrived_for_pickup_at   timestamptz,
  picked_up_at            timestamptz,
  arrived_for_delivery_at timestamptz,
  other_status_at         timestamptz,
  cancelled_at            timestamptz,
  gone_at                 timestamptz,
  first_seen_via          text not null,
  first_seen_at           timestamptz not null,
  statuses_by_event       integer not null,
  statuses_by_read        integer not null,
  corrections             integer not null,
  primary key (source_id, reference)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05);
comment on table  mirror.order_facts                         is 'One row per order, computed from its history: when it had which status, and how the mirror learned of it. No personal data. A missing row is computed again.';
comment on column mirror.order_facts.source_id               is 'The source; references sources.';
comment on column mirror.order_facts.reference               is 'The provider''s order reference.';
comment on column mirror.order_facts.history_id              is 'The latest observation that is included.';
comment on column mirror.order_facts.observations            is 'How many observations are included. If the history has fewer of them, retention removed the others, and what they showed is kept.';
comment on column mirror.order_facts.revision                is 'Revision of the order that is included, as in orders.';
comment on column mirror.order_facts.status                  is 'Latest known status.';
comment on column mirror.order_facts.branch_id               is 'The provider''s id of the branch; looked up by branch_reference where the order has only that.';
comment on column mirror.order_facts.branch_reference        is 'The code of the branch as the order has it.';
comment on column mirror.order_facts.fleet_name              is 'The fleet that delivers it.';
comment on column mirror.order_facts.pickup_time             is 'Planned pickup.';
comment on column mirror.order_facts.delivery_time           is 'Planned delivery.';
comment on column mirror.order_facts.real_pickup_time        is 'Actual pickup.';
comment on column mirror.order_facts.real_delivery_time      is 'Actual delivery.';
comment on column mirror.order_facts.updated_at              is 'When the provider last changed the order.';
comment on column mirror.order_facts.created_at              is 'updatedAt of the first known state with the status created; null if none was seen, or if a read contradicted it.';
comment on column mirror.order_facts.arrived_for_pickup_at   is 'The same for arrived_for_pickup.';
comment on column mirror.order_facts.picked_up_at            is 'The same for picked_up.';
comment on column mirror.order_facts.arrived_for_delivery_at is 'The same for arrived_for_delivery.';
comment on column mirror.order_facts.other_status_at         is 'The same for any status that the provider does not document.';
comment on column mirror.order_facts.cancelled_at            is 'The same for cancelled.';
comment on column mirror.order_facts.gone_at                 is 'When a read found that the provider has no such order; null while it has one.';
comment on column mirror.order_facts.first_seen_via          is 'How the mirror first learned of the order.';
comment on column mirror.order_facts.first_seen_at           is 'When the order was first seen, by the database''s clock.';
comment on column mirror.order_facts.statuses_by_event       is 'How many statuses, except created, an event brought first.';
comment on column mirror.order_facts.statuses_by_read        is 'How many statuses, except created, a read brought first.';
comment on column mirror.order_facts.corrections             is 'How often a read corrected the order.';
create index order_facts_by_pickup on mirror.order_facts (source_id, pickup_time);
create index order_facts_by_delivery on mirror.order_facts (source_id, delivery_time);

create table mirror.facts_progress (
  source_id     text primary key references mirror.sources,
  step          bigint not null default 0,
  position      bigint not null,
  late_state    bigint not null default 0,
  walked_to     text default '',
  walked_at     timestamptz,
  history_since bigint,
  safe_through  bigint,
  breach_id     bigint not null default 0
);
comment on table  mirror.facts_progress               is 'How far order_facts has been kept up to date, one row per source.';
comment on column mirror.facts_progress.source_id     is 'The source; references sources.';
comment on column mirror.facts_progress.step          is 'Number of batches so far. A batch is committed only if this is what its writer expects.';
comment on column mirror.facts_progress.position      is 'The last change of the feed that is included.';
comment on column mirror.facts_progress.late_state    is 'The last observation up to which older states, which arrived after younger ones and are not in the feed, are included.';
comment on column mirror.facts_progress.walked_to     is 'The last reference up to which missing rows have been computed; null: all orders have a row.';
comment on column mirror.facts_progress.walked_at     is 'When all orders were last examined for missing rows, by the database''s clock.';
comment on column mirror.facts_progress.history_since is 'Start of the proved period at that time, as in poll_state.';
comment on column mirror.facts_progress.safe_through  is 'order_facts has every change with updatedAt before this instant that the mirror has; nanoseconds since 1970. Null until all rows were computed and something was proved.';
comment on column mirror.facts_progress.breach_id     is 'The last breach that was known then; a later one withdraws the claim for its period.';

-- Totals per day, which triggers keep equal to the rows of order_facts: a statement about a year adds up some thousands
-- of them instead of millions of orders. A stored day needs one time zone for all readers.
create table mirror.reporting_zone (
  name text primary key
);
comment on table  mirror.reporting_zone      is 'One row: the time zone of the days of reporting.daily. The procedure mirror.set_reporting_zone changes it.';
comment on column mirror.reporting_zone.name is 'Name of the time zone, as in pg_timezone_names.';
insert into mirror.reporting_zone (name) values ('UTC');

create table mirror.facts_daily (
  source_id         text not null,
  day               date not null,
  branch_id         text not null,
  fleet_name        text not null,
  orders            bigint not null,
  open_orders       bigint not null,
  cancelled_orders  bigint not null,
  delivered_orders  bigint not null,
  late_deliveries   bigint not null,
  late_seconds      numeric not null,
  timed_deliveries  bigint not null,
  delivery_seconds  numeric not null,
  statuses_by_event bigint not null,
  statuses_by_read  bigint not null,
  corrections       bigint not null,
  primary key (source_id, day, branch_id, fleet_name)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
comment on table  mirror.facts_daily                   is 'Totals of the orders of a day, branch and fleet: always the sum of the rows of order_facts. Rows without orders are left over from orders that moved to another day, branch or fleet.';
comment on column mirror.facts_daily.source_id         is 'The source; references sources.';
comment on column mirror.facts_daily.day               is 'Day of the planned pickup in the time zone of reporting_zone.';
comment on column mirror.facts_daily.branch_id         is 'Branch of the orders; empty for orders without a known branch.';
comment on column mirror.facts_daily.fleet_name        is 'Fleet of the orders; empty for orders without one.';
comment on column mirror.facts_daily.orders            is 'How many orders.';
comment on column mirror.facts_daily.open_orders       is 'How many of them are open.';
comment on column mirror.facts_daily.cancelled_orders  is 'How many of them are cancelled.';
comment on column mirror.facts_daily.delivered_orders  is 'How many of them have an actual delivery time.';
comment on column mirror.facts_daily.late_deliveries   is 'How many of those were delivered after the planned time.';
comment on column mirror.facts_daily.late_seconds      is 'By how much in total, in seconds. Exact, so that what is subtracted leaves nothing.';
comment on column mirror.facts_daily.timed_deliveries  is 'How many delivered orders have a known creation time.';
comment on column mirror.facts_daily.delivery_seconds  is 'Seconds from creation to delivery of those, in total. Exact.';
comment on column mirror.facts_daily.statuses_by_event is 'Statuses, except created, that an event brought first.';
comment on column mirror.facts_daily.statuses_by_read  is 'Statuses, except created, that a read brought first.';
comment on column mirror.facts_daily.corrections       is 'How often a read corrected one of the orders.';

-- The statement that adds rows to the totals stands once. A trigger sees only the transition tables that it names, so there
-- is one function for each way to change rows; a sign of -1 takes a row out of its total. The functions have the owner's
-- rights, so that nobody writes totals except by changing rows.
do $$
declare
  add_up constant text := $add_up$
  insert into mirror.facts_daily as t
  select source_id, (pickup_time at time zone z.name)::date, coalesce(branch_id, ''), coalesce(fleet_name, ''),
    sum(sign),
    coalesce(sum(sign) filter (where status in ('created', 'arrived_for_pickup', 'picked_up', 'arrived_for_delivery')), 0),
    coalesce(sum(sign) filter (where status = 'cancelled'), 0),
    coalesce(sum(sign) filter (where real_delivery_time is not null), 0),
    coalesce(sum(sign) filter (where real_delivery_time > delivery_time), 0),
    coalesce(sum(sign * extract(epoch from real_delivery_time - delivery_time)::numeric)
      filter (where real_delivery_time > delivery_time), 0),
    coalesce(sum(sign) filter (where real_delivery_time is not null and created_at is not null), 0),
    coalesce(sum(sign * extract(epoch from real_delivery_time - created_at)::numeric), 0),
    sum(sign * statuses_by_event), sum(sign * statuses_by_read), sum(sign * corrections)
  from (%s) changed, mirror.reporting_zone z
  where gone_at is null and pickup_time is not null
  group by 1, 2, 3, 4
  order by 1, 2, 3, 4
  on conflict (source_id, day, branch_id, fleet_name) do update set
    orders = t.orders + excluded.orders,
    open_orders = t.open_orders + excluded.open_orders,
    cancelled_orders = t.cancelled_orders + excluded.cancelled_orders,
    delivered_orders = t.delivered_orders + excluded.delivered_orders,
    late_deliveries = t.late_deliveries + excluded.late_deliveries,
    late_seconds = t.late_seconds + excluded.late_seconds,
    timed_deliveries = t.timed_deliveries + excluded.timed_deliveries,
    delivery_seconds = t.delivery_seconds + excluded.delivery_seconds,
    statuses_by_event = t.statuses_by_event + excluded.statuses_by_event,
    statuses_by_read = t.statuses_by_read + excluded.statuses_by_read,
    corrections = t.corrections + excluded.corrections$add_up$;
  way record;
begin
  for way in select * from (values
    ('insert', 'new table as added', 'select 1 as sign, a.* from added a'),
    ('update', 'new table as added old table as removed',
      'select 1 as sign, a.* from added a union all select -1, r.* from removed r'),
    ('delete', 'old table as removed', 'select -1 as sign, r.* from removed r')) as ways (name, tables, rows)
  loop
    execute format($function$
      create function mirror.add_up_after_%1$s() returns trigger language plpgsql
      security definer set search_path = pg_catalog, pg_temp as $body$
      begin %2$s;
        return null;
      end $body$;
      comment on function mirror.add_up_after_%1$s is 'Adds to facts_daily what changed in order_facts.';
      create trigger add_up_after_%1$s after %1$s on mirror.order_facts referencing %3$s
        for each statement execute function mirror.add_up_after_%1$s()$function$,
      way.name, format(add_up, way.rows), way.tables);
  end loop;
  execute format($procedure$
    create procedure mirror.set_reporting_zone(zone text) language plpgsql as $body$
    begin
      perform now() at time zone zone;
      lock table mirror.order_facts in share row exclusive mode;
      update mirror.reporting_zone set name = zone;
      delete from mirror.facts_daily; %s;
    end $body$ $procedure$, format(add_up, 'select 1 as sign, f.* from mirror.order_facts f'));
end $$;
comment on procedure mirror.set_reporting_zone is 'Sets the time zone of the days of reporting.daily, and computes its rows again. Raises an error if Postgres does not know the zone.';
revoke execute on procedure mirror.set_reporting_zone from public;

-- Few observations are older than what was known, and these do not appear in the feed. The index of corrections also
-- finds them, so that writers of the history maintain no further index.
drop index mirror.corrections;
create index corrected_or_late on mirror.history (source_id, verdict, history_id) include (reference)
  where verdict in ('corrected', 'stale');

create view mirror.facts_known as
select f.source_id, f.history_since as since,
  least(f.safe_through, p.safe_through, (
    select min(b.since) from mirror.coverage_breaches b
    where b.source_id = f.source_id and b.breach_id > f.breach_id)) as through
from mirror.facts_progress f join mirror.poll_state p using (source_id)
where f.safe_through is not null and p.safe_through is not null;
comment on view mirror.facts_known is 'The period of updatedAt in which order_facts lacks nothing, as far as all evidence shows, per source.';
comment on column mirror.facts_known.source_id is 'The source; references sources.';
comment on column mirror.facts_known.since     is 'Start of the period, inclusive, nanoseconds since 1970.';
comment on column mirror.facts_known.through   is 'End of the period, exclusive, nanoseconds since 1970.';

create view reporting.order_facts with (security_barrier) as
select
  f.source_id, f.reference, f.status,
  f.status in ('created', 'arrived_for_pickup', 'picked_up', 'arrived_for_delivery') as is_open,
  f.branch_id, coalesce(b.reference, f.branch_reference) as branch_reference, b.name as branch_name, f.fleet_name,
  f.pickup_time, f.delivery_time, f.real_pickup_time, f.real_delivery_time,
  f.created_at, f.arrived_for_pickup_at, f.picked_up_at, f.arrived_for_delivery_at, f.other_status_at, f.cancelled_at,
  date_part('epoch', least(f.arrived_for_pickup_at, f.picked_up_at, f.arrived_for_delivery_at, f.other_status_at, f.cancelled_at)
    - f.created_at) as created_seconds,
  date_part('epoch', least(f.picked_up_at, f.arrived_for_delivery_at, f.other_status_at, f.cancelled_at)
    - f.arrived_for_pickup_at) as arrived_for_pickup_seconds,
  date_part('epoch', least(f.arrived_for_delivery_at, f.other_status_at, f.cancelled_at)
    - f.picked_up_at) as picked_up_seconds,
  date_part('epoch', least(f.other_status_at, f.cancelled_at)
    - f.arrived_for_delivery_at) as arrived_for_delivery_seconds,
  date_part('epoch', f.real_pickup_time - f.created_at) as created_to_pickup_seconds,
  date_part('epoch', f.real_delivery_time - f.created_at) as created_to_delivery_seconds,
  date_part('epoch', f.real_delivery_time - f.real_pickup_time) as transit_seconds,
  date_part('epoch', f.real_pickup_time - f.pickup_time) as pickup_delay_seconds,
  date_part('epoch', f.real_delivery_time - f.delivery_time) as delivery_delay_seconds,
  f.real_delivery_time > f.delivery_time as is_late,
  f.first_seen_via, f.first_seen_at, f.first_seen_via = 'webhook' as first_seen_by_event,
  f.statuses_by_event, f.statuses_by_read, f.corrections, f.updated_at
from mirror.order_facts f
left join mirror.branches b on b.source_id = f.source_id and b.branch_id = f.branch_id
where f.gone_at is null and ((select every_source from mirror.reader) or f.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.order_facts                              is 'One narrow row per order: times and durations of its statuses, planned and actual times, and how the mirror learned of it. Made for statements over many orders. Current as sync_status.facts_through says. Orders that the provider no longer has are left out. Filter by source_id and pickup_time or delivery_time.';
comment on column reporting.order_facts.source_id                    is 'Source of the order.';
comment on column reporting.order_facts.reference                    is 'The provider''s order reference.';
comment on column reporting.order_facts.status                       is 'Latest known status.';
comment on column reporting.order_facts.is_open                      is 'True for the documented statuses that are not final, as in orders.';
comment on column reporting.order_facts.branch_id                    is 'Branch that the order was made for.';
comment on column reporting.order_facts.branch_reference             is 'The branch''s code from the provider''s dashboard, as it is today.';
comment on column reporting.order_facts.branch_name                  is 'Name of the branch, as it is today.';
comment on column reporting.order_facts.fleet_name                   is 'Fleet that has the order.';
comment on column reporting.order_facts.pickup_time                  is 'Planned pickup.';
comment on column reporting.order_facts.delivery_time                is 'Planned delivery.';
comment on column reporting.order_facts.real_pickup_time             is 'Actual pickup; null until then.';
comment on column reporting.order_facts.real_delivery_time           is 'Actual delivery; null until then.';
comment on column reporting.order_facts.created_at                   is 'When the order was first known to be in the status created, by updatedAt; null if no such state was seen.';
comment on column reporting.order_facts.arrived_for_pickup_at        is 'The same for arrived_for_pickup. If only polling saw the order, the status may have begun earlier, or may never have been seen.';
comment on column reporting.order_facts.picked_up_at                 is 'The same for picked_up.';
comment on column reporting.order_facts.arrived_for_delivery_at      is 'The same for arrived_for_delivery.';
comment on column reporting.order_facts.other_status_at              is 'The same for any status that the provider does not document, such as the one after a delivery.';
comment on column reporting.order_facts.cancelled_at                 is 'The same for cancelled.';
comment on column reporting.order_facts.created_seconds              is 'Seconds from created_at to the next status; null while either is unknown.';
comment on column reporting.order_facts.arrived_for_pickup_seconds   is 'Seconds from arrived_for_pickup_at to the next status: how long the courier waited.';
comment on column reporting.order_facts.picked_up_seconds            is 'Seconds from picked_up_at to the next status.';
comment on column reporting.order_facts.arrived_for_delivery_seconds is 'Seconds from arrived_for_delivery_at to the next status.';
comment on column reporting.order_facts.created_to_pickup_seconds    is 'Seconds from created_at to the actual pickup.';
comment on column reporting.order_facts.created_to_delivery_seconds  is 'Seconds from created_at to the actual delivery.';
comment on column reporting.order_facts.transit_seconds              is 'Seconds from the actual pickup to the actual delivery.';
comment on column reporting.order_facts.pickup_delay_seconds         is 'Seconds that the pickup was late; negative when early.';
comment on column reporting.order_facts.delivery_delay_seconds       is 'Seconds that the delivery was late; negative when early.';
comment on column reporting.order_facts.is_late                      is 'True when it was delivered after the planned time; null until it is delivered.';
comment on column reporting.order_facts.first_seen_via               is 'How the mirror first learned of the order: webhook, poll, backfill, refetch, verify or write.';
comment on column reporting.order_facts.first_seen_at                is 'When the mirror first learned of the order.';
comment on column reporting.order_facts.first_seen_by_event          is 'True when an event brought the order first, false when a read or a write did.';
comment on column reporting.order_facts.statuses_by_event            is 'How many of its statuses, except created, an event brought first.';
comment on column reporting.order_facts.statuses_by_read             is 'How many of its statuses, except created, a read brought first.';
comment on column reporting.order_facts.corrections                  is 'How often a read corrected what the mirror had.';
comment on column reporting.order_facts.updated_at                   is 'When the provider last changed the order.';

create view reporting.daily with (security_barrier) as
select
  d.source_id, d.day, nullif(d.branch_id, '') as branch_id, b.reference as branch_reference, b.name as branch_name,
  nullif(d.fleet_name, '') as fleet_name, d.orders, d.open_orders, d.cancelled_orders, d.delivered_orders, d.late_deliveries,
  d.late_seconds::double precision as late_seconds, d.timed_deliveries, d.delivery_seconds::double precision as delivery_seconds,
  d.statuses_by_event, d.statuses_by_read, d.corrections,
  coalesce(mirror.nanos_of((d.day + 1)::timestamp at time zone z.name) <= k.through
    and mirror.nanos_of(d.day::timestamp at time zone z.name) >= k.since, false) as is_final
from mirror.facts_daily d
cross join mirror.reporting_zone z
left join mirror.branches b on b.source_id = d.source_id and b.branch_id = d.branch_id
left join mirror.facts_known k on k.source_id = d.source_id
where d.orders > 0 and ((select every_source from mirror.reader) or d.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.daily                   is 'One row per day of the planned pickup, branch and fleet, kept equal to the rows of order_facts. Days are those of UTC, or of the time zone that mirror.set_reporting_zone has set. Columns can be summed over days, branches and fleets. Filter by source_id and day.';
comment on column reporting.daily.source_id         is 'Source of the orders.';
comment on column reporting.daily.day               is 'Day of the planned pickup. Orders without a planned pickup are left out.';
comment on column reporting.daily.branch_id         is 'Branch of the orders; null for orders without a known branch.';
comment on column reporting.daily.branch_reference  is 'The branch''s code from the provider''s dashboard, as it is today.';
comment on column reporting.daily.branch_name       is 'Name of the branch, as it is today.';
comment on column reporting.daily.fleet_name        is 'Fleet of the orders.';
comment on column reporting.daily.orders            is 'How many orders.';
comment on column reporting.daily.open_orders       is 'How many of them are open.';
comment on column reporting.daily.cancelled_orders  is 'How many of them are cancelled.';
comment on column reporting.daily.delivered_orders  is 'How many of them have an actual delivery time.';
comment on column reporting.daily.late_deliveries   is 'How many of those were delivered after the planned time.';
comment on column reporting.daily.late_seconds      is 'By how much in total, in seconds.';
comment on column reporting.daily.timed_deliveries  is 'How many delivered orders have a known creation time.';
comment on column reporting.daily.delivery_seconds  is 'Seconds from creation to delivery of those, in total.';
comment on column reporting.daily.statuses_by_event is 'Statuses, except created, that an event brought first.';
comment on column reporting.daily.statuses_by_read  is 'Statuses, except created, that a read brought first.';
comment on column reporting.daily.corrections       is 'How often a read corrected one of the orders.';
comment on column reporting.daily.is_final          is 'True when the mirror has every change that the provider dates before the end of the day. A later change of such an order, a late cancellation for example, still changes the row. Becomes false again when the proof is withdrawn (coverage_breaches), until the period is proved again.';

create view reporting.sync_status with (security_barrier) as
select
  s.source_id, s.mode,
  mirror.instant_at(p.safe_through) as safe_through,
  extract(epoch from now() - mirror.instant_at(p.safe_through))::double precision as safe_through_age_seconds,
  mirror.instant_at(p.polled_through) as polled_through,
  p.last_cycle_started_at, p.last_cycle_ended_at, p.last_error, p.last_error_at, s.branches_read_at,
  (select mirror.instant_at(o.version) from mirror.orders o
    where o.source_id = s.source_id order by o.version desc, o.reference desc limit 1) as newest_updated_at,
  (select count(*) from mirror.pending w where w.source_id = s.source_id) as pending_event_count,
  (select count(*) from mirror.quarantine q where q.source_id = s.source_id and q.state = 'open') as quarantined_count,
  (select count(*) from mirror.refetches r where r.source_id = s.source_id) as refetch_count,
  (select count(*) from mirror.exceptions e where e.source_id = s.source_id) as exceptions,
  (select count(*) from mirror.coverage_breaches b where b.source_id = s.source_id) as breaches,
  mirror.instant_at(k.through) as facts_through
from mirror.sources s
left join mirror.poll_state p on p.source_id = s.source_id
left join mirror.facts_known k on k.source_id = s.source_id
where ((select every_source from mirror.reader) or s.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.sync_status                          is 'One row per source: how far its data can be trusted. Put safe_through on every report as "data as of".';
comment on column reporting.sync_status.source_id                is 'Name of the source.';
comment on column reporting.sync_status.mode                     is 'live or test.';
comment on column reporting.sync_status.safe_through             is 'The mirror has every change that the provider dates before this instant, as far as all evidence shows, except for the orders counted in exceptions. Goes back only with a new row in coverage_breaches. Null until the first proof.';
comment on column reporting.sync_status.safe_through_age_seconds is 'Age of safe_through in seconds.';
comment on column reporting.sync_status.polled_through           is 'How far the last quick poll reached.';
comment on column reporting.sync_status.last_cycle_started_at    is 'Start of the last poll.';
comment on column reporting.sync_status.last_cycle_ended_at      is 'End of the last poll.';
comment on column reporting.sync_status.last_error               is 'Why the last poll failed; null when it did not fail.';
comment on column reporting.sync_status.last_error_at            is 'When a poll last failed.';
comment on column reporting.sync_status.branches_read_at         is 'The branches are as the provider had them at this time. Null until they were first read.';
comment on column reporting.sync_status.newest_updated_at        is 'Latest updatedAt of all orders in the mirror.';
comment on column reporting.sync_status.pending_event_count      is 'Events received and not yet applied.';
comment on column reporting.sync_status.quarantined_count        is 'Input that could not be applied and waits for a person.';
comment on column reporting.sync_status.refetch_count            is 'Orders that are to be read again one by one.';
comment on column reporting.sync_status.exceptions               is 'Orders that were seen but could not be read, and changes from events that no read has confirmed yet: safe_through does not cover them.';
comment on column reporting.sync_status.breaches                 is 'How often a proof was withdrawn: see coverage_breaches.';
comment on column reporting.sync_status.facts_through            is 'order_facts and daily include every change that the provider dates before this instant; seconds behind safe_through. Null until they have been computed for all orders.';

create function reporting.require(source text, day date, allow_exceptions boolean default false) returns timestamptz
language sql stable
return mirror.require_day(source, day, allow_exceptions,
  exists (select from reporting.sync_status s where s.source_id = source));
comment on function reporting.require is 'Raises an error with the SQLSTATE OM412 unless the mirror has every change of a day, in the session''s time zone; otherwise returns safe_through. For jobs that must not run on unfinished data: call it as a statement of its own, in the transaction of the job. Orders that safe_through excepts are refused, too, because they may have changed on that day, unless allow_exceptions is true.';
