-- What people and reporting tools read: the schema `reporting`, views only. Views run with their owner's rights, so a
-- reader needs no rights on the schema `mirror`; functions that views call run with the reader's rights, so they read no
-- table. Each view shows only sources that the reader was admitted to, and is a security barrier: otherwise the conditions
-- of a statement could run before that limit and reveal other rows in their error messages.

create schema reporting;
comment on schema reporting is 'What order-mirror offers to reporting tools: views with stable names, no personal data, times with time zone.';

create table mirror.reader_sources (
  login     text not null,
  source_id text not null,
  primary key (source_id, login)
);
comment on table  mirror.reader_sources           is 'The sources that each reporting login may read. A login without a row reads nothing.';

create view mirror.reader as
select has_table_privilege('mirror.orders'::regclass, 'select') or '*' = any (admitted.sources) as every_source, admitted.sources
from (
  select array(
    select a.source_id from mirror.reader_sources a join pg_catalog.pg_roles r on r.rolname = a.login
    where pg_has_role(r.oid, 'usage')) as sources) admitted;
comment on view   mirror.reader              is 'One row: what the current user may read in the schema reporting. Every view there is limited to it.';
comment on column mirror.reader.every_source is 'True for a login that was admitted to every source, and for one that may read the tables themselves.';

create function mirror.is_open(status text, real_delivery_time timestamptz) returns boolean
language sql immutable parallel safe
return status not in ('cancelled', 'delivered') and real_delivery_time is null;
comment on function mirror.is_open is 'Whether something may still happen to an order: it is neither cancelled nor delivered. Every other status is open, also one that the provider does not document.';

create view reporting.orders with (security_barrier) as
select
  o.source_id, o.reference, o.external_order_id, o.status,
  mirror.is_open(o.status, o.real_delivery_time) as is_open,
  o.livemode, o.fleet_name,
  o.branch_id, coalesce(b.reference, o.branch_reference) as branch_reference, b.name as branch_name,
  o.schedule_mode, o.resolved_pickup_time, o.resolved_delivery_time, o.resolved_basis,
  o.pickup_time, o.delivery_time, o.real_pickup_time, o.real_delivery_time,
  o.updated_at, o.version, o.settled, mirror.instant_at(o.horizon) as verified_through,
  o.revision, o.first_seen_via, o.first_seen_at, o.changed_at, encode(o.hash, 'hex') as content_hash
from mirror.orders o
left join mirror.branches b on b.source_id = o.source_id
  and b.branch_id = coalesce(o.branch_id, (
    select n.branch_id from mirror.branches n
    where n.source_id = o.source_id and n.reference = o.branch_reference
    order by n.closed_at desc nulls first, n.branch_id limit 1))
where o.gone_at is null and ((select every_source from mirror.reader) or o.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.orders                        is 'One row per order that the provider has: its latest known state. Filter by source_id and a time: pickup_time, delivery_time, updated_at and changed_at have indexes. Join the other views by source_id and reference.';
comment on column reporting.orders.source_id              is 'Organization and mode that the order belongs to, as configured: "live" or "test" unless named otherwise.';
comment on column reporting.orders.reference              is 'The provider''s order reference. Unique within a source.';
comment on column reporting.orders.external_order_id      is 'The business''s own identifier (externalOrderId). Text: a spreadsheet must not read it as a number.';
comment on column reporting.orders.status                 is 'Status as the provider says it; order_statuses explains the known ones.';
comment on column reporting.orders.is_open                is 'True unless the order is cancelled or delivered, or has an actual delivery; so also for a status that the provider does not document. An index serves it together with source_id.';
comment on column reporting.orders.fleet_name             is 'Fleet that has the order.';
comment on column reporting.orders.branch_id              is 'Branch that the order was made for; null when the provider does not say.';
comment on column reporting.orders.branch_reference       is 'The branch''s code from the provider''s dashboard, as it is today.';
comment on column reporting.orders.branch_name            is 'Name of the branch, as it is today.';
comment on column reporting.orders.resolved_pickup_time   is 'Pickup time that the service agreed to (schedule.resolved).';
comment on column reporting.orders.resolved_delivery_time is 'Delivery time that the service agreed to (schedule.resolved).';
comment on column reporting.orders.resolved_basis         is 'How the agreed times were derived, for example busy_hours.';
comment on column reporting.orders.pickup_time            is 'Planned pickup.';
comment on column reporting.orders.delivery_time          is 'Planned delivery.';
comment on column reporting.orders.real_pickup_time       is 'Actual pickup; null until then.';
comment on column reporting.orders.real_delivery_time     is 'Actual delivery; null until then.';
comment on column reporting.orders.updated_at             is 'When the provider last changed the order, to the microsecond.';
comment on column reporting.orders.version                is 'updated_at exactly: nanoseconds since 1970.';
comment on column reporting.orders.settled                is 'True once a read has confirmed this state at a time when no further change could have its updated_at.';
comment on column reporting.orders.verified_through       is 'A read showed this state, which includes every change up to this instant. Null while only an event has shown it, or a read of a version beyond its own horizon.';
comment on column reporting.orders.revision               is 'How many different states of the order were seen.';
comment on column reporting.orders.first_seen_via         is 'How the mirror first learned of the order: webhook, poll, backfill, refetch, verify or write.';
comment on column reporting.orders.first_seen_at          is 'When the mirror first learned of the order.';
comment on column reporting.orders.content_hash           is 'Equal for two states of an order with the same content: SHA-256, in hexadecimal, of its JSON without updatedAt, with sorted keys and times to the second.';
comment on column reporting.orders.changed_at             is 'When the order last changed in the mirror; use it for incremental loads.';

create view reporting.gone_orders with (security_barrier) as
select o.source_id, o.reference, o.external_order_id, o.status, o.fleet_name, o.branch_id, o.pickup_time, o.delivery_time,
  o.updated_at, o.first_seen_at, o.gone_at
from mirror.orders o
where o.gone_at is not null and ((select every_source from mirror.reader) or o.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.gone_orders         is 'One row per order that the provider no longer has: its last known state. No other view counts it, except order_history and webhook_reliability.';
comment on column reporting.gone_orders.gone_at is 'When reads found that the provider no longer has the order.';

create view reporting.order_statuses as
select * from (values
  ('created', 1, false, 'Initial status after creation.'),
  ('arrived_for_pickup', 2, false, 'The courier is at the pickup.'),
  ('picked_up', 3, false, 'The courier has the goods.'),
  ('arrived_for_delivery', 4, false, 'The courier is at the delivery.'),
  ('cancelled', 6, true, 'Final. The order stays readable.')
) as known (status, place, is_final, meaning);
comment on view   reporting.order_statuses          is 'The statuses that the provider documents, in the order of an order''s life. Orders may have other statuses: use a left join.';
comment on column reporting.order_statuses.place    is 'Place in the life of an order; a status that is not listed counts as 5.';
comment on column reporting.order_statuses.is_final is 'True when nothing comes after it.';

create view reporting.order_history with (security_barrier) as
select
  h.source_id, h.reference, h.history_id, h.seen_at, i.received_at, h.via::text, h.verdict::text, h.conflict, h.reason,
  h.refuted, h.event_id, h.event_type, h.status, mirror.instant_at(h.version) as updated_at, h.version, h.settled,
  mirror.instant_at(h.observed_at) as observed_at, h.observed_at as observed_version, h.rank as status_place,
  h.raw is not null or h.raw_start is not null as has_content,
  c.raw ->> 'externalOrderId' as external_order_id,
  c.raw -> 'fleet' ->> 'name' as fleet_name,
  c.raw -> 'branch' ->> 'id' as branch_id,
  c.raw -> 'branch' ->> 'reference' as branch_reference,
  c.raw -> 'schedule' ->> 'mode' as schedule_mode,
  mirror.read_time(c.raw ->> 'pickupTime') as pickup_time,
  mirror.read_time(c.raw ->> 'deliveryTime') as delivery_time,
  mirror.read_time(c.raw ->> 'realPickupTime') as real_pickup_time,
  mirror.read_time(c.raw ->> 'realDeliveryTime') as real_delivery_time
from mirror.history h
left join mirror.inbox i on i.seq = h.inbox_seq
-- Read once per row, and only for columns that are asked for.
cross join lateral (
  select mirror.readable_json(coalesce(h.raw,
    convert_from(substring(i.body from h.raw_start for h.raw_length), 'UTF8')::json)) as raw offset 0
) c
where h.reference is not null and ((select every_source from mirror.reader) or h.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.order_history                    is 'One row per decided observation of an order: every event, and every read with new content. Filter by source_id and reference, or by seen_at.';
comment on column reporting.order_history.history_id         is 'Number of the observation, in the order of decisions.';
comment on column reporting.order_history.seen_at            is 'When the decision was made, by the database''s clock.';
comment on column reporting.order_history.received_at        is 'When the event was received and stored; null for a read.';
comment on column reporting.order_history.via                is 'How it was seen: webhook, poll, backfill, refetch, verify or write.';
comment on column reporting.order_history.verdict            is 'applied: it changed the order. corrected: it changed the order back to an earlier updated_at, because a read refuted the later one or that was dated ahead of its observation. confirmed: a later read showed the same content. stale: a newer state was known. refuted: a read had already shown that it was wrong. duplicate: the same state was known. ignored: it contained nothing to apply. quarantined: could not be applied. gone: the provider has no such order.';
comment on column reporting.order_history.conflict           is 'The provider sent different content with the same updatedAt.';
comment on column reporting.order_history.refuted            is 'True for a state that a later read of the order contradicted: leave it out when you reconstruct past states.';
comment on column reporting.order_history.observed_at        is 'When the read was requested or the event created, by the provider''s clock.';
comment on column reporting.order_history.observed_version   is 'observed_at exactly: nanoseconds since 1970.';
comment on column reporting.order_history.status_place       is 'Place of the status in the life of an order, as in order_statuses.';
comment on column reporting.order_history.has_content        is 'True when the content of the observation is kept and the columns after this one are filled: for applied, corrected, stale and refuted observations.';

-- The steps of each order: runs of one status, in the sequence of updatedAt. A pickup that no observation showed is known
-- from the order's own realPickupTime, unless that contradicts the others. How long a step lasted is known if the next
-- documented status is the same or the following one, or if none follows: otherwise one of them was not seen, and the time to
-- the next step is too long.
create view mirror.order_steps as
select source_id, reference, step, status, version, next_version, via, seen_at,
  case when documented_before[2] >= 4 or documented_after[2] <= documented_before[2] + 1
    then (next_version - version) / 1e9::double precision end as seconds
from (
  select *, row_number() over life as step, lead(version) over life as next_version,
    max(array[version, place]) filter (where place <> 5) over (life rows between unbounded preceding and current row)
      as documented_before,
    min(array[version, place]) filter (where place <> 5) over (life rows between 1 following and unbounded following)
      as documented_after
  from (
    select *, lag(status) over (
      partition by source_id, reference order by version, settled, observed_at, place, hash, history_id) as status_before
    from (
      select source_id, reference, status, version, settled, observed_at, rank::bigint as place, hash, history_id, via::text as via,
        seen_at
      from mirror.history where verdict in ('applied', 'corrected', 'stale') and not refuted
      union all
      select o.source_id, o.reference, 'picked_up', mirror.nanos_of(o.real_pickup_time), true, o.observed_at, 3, o.hash,
        o.history_id, null, null
      from mirror.orders o
      where o.real_pickup_time is not null and not exists (
        select from mirror.history h
        where h.source_id = o.source_id and h.reference = o.reference and h.verdict in ('applied', 'corrected', 'stale')
          and not h.refuted and (h.status = 'picked_up'
            or h.rank <> 5 and (h.rank < 3) <> (h.version < mirror.nanos_of(o.real_pickup_time))))
    ) known
  ) entered
  where status_before is distinct from status
  window life as (partition by source_id, reference order by version, settled, observed_at, place, hash, history_id)
) steps;
comment on view mirror.order_steps is 'The statuses that each order was in, one after the other; reporting.order_timeline and reporting.order_facts show them.';

create view reporting.order_timeline with (security_barrier) as
select
  o.source_id, o.reference, t.step, t.status, mirror.instant_at(t.version) as entered_at,
  mirror.instant_at(t.next_version) as left_at,
  extract(epoch from mirror.instant_at(t.next_version) - mirror.instant_at(t.version))::double precision as duration_seconds, t.next_version is null as is_current,
  mirror.is_open(o.status, o.real_delivery_time) as is_open, t.via as first_via, t.seen_at as first_seen_at,
  o.external_order_id, o.fleet_name, o.branch_id, o.pickup_time, o.updated_at as order_updated_at
from mirror.orders o
cross join lateral (
  select * from mirror.order_steps s where s.source_id = o.source_id and s.reference = o.reference offset 0) t
where o.gone_at is null and ((select every_source from mirror.reader) or o.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.order_timeline                   is 'One row per status that an order was in: when it began and how long it lasted. Filter by source_id and reference, or by pickup_time or order_updated_at of the order; not by entered_at alone, which has no index.';
comment on column reporting.order_timeline.entered_at        is 'updatedAt of the first state seen with it. If only polling saw the order, the status may have begun earlier. Of a pickup that was not seen: real_pickup_time.';
comment on column reporting.order_timeline.left_at           is 'When the next known status began; null for the current one.';
comment on column reporting.order_timeline.duration_seconds  is 'Seconds from entered_at to left_at; null for the current status. Too long where a status between the two was not seen: order_facts leaves such durations out.';
comment on column reporting.order_timeline.is_current        is 'True for the status that the order is in.';
comment on column reporting.order_timeline.is_open           is 'True while the order itself is open, as in orders: filter by it for orders in progress.';
comment on column reporting.order_timeline.first_via         is 'How the status was first seen: webhook, poll, backfill, refetch, verify or write. Null for a pickup that only the order''s real_pickup_time shows.';
comment on column reporting.order_timeline.first_seen_at     is 'When the status was first seen here.';

create view reporting.branches with (security_barrier) as
select source_id, branch_id, reference, name, street, city, postcode, fleet_name, zone_code, zone_name,
  jsonb_array_length(connected_zones) as connected_zone_count, connected_zones,
  closed_at is null as is_open, first_seen_at, last_seen_at, closed_at
from mirror.branches b
where ((select every_source from mirror.reader) or b.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.branches                      is 'One row per branch, including closed ones.';
comment on column reporting.branches.branch_id            is 'The provider''s id of the branch.';
comment on column reporting.branches.reference            is 'Code set in the provider''s dashboard; null until set.';
comment on column reporting.branches.fleet_name           is 'Fleet that its orders go to; null without a primary connection, in which case no order can be created.';
comment on column reporting.branches.zone_code            is 'Zone that its orders go to when none is requested.';
comment on column reporting.branches.connected_zones      is 'All its zones as JSON: code, name, isPrimary.';
comment on column reporting.branches.is_open              is 'False once the provider no longer lists it.';
comment on column reporting.branches.first_seen_at        is 'When it was first seen here.';
comment on column reporting.branches.closed_at            is 'When it was first missing from the provider''s list.';

create view reporting.webhook_reliability with (security_barrier) as
select
  h.source_id, h.reference, mirror.instant_at(h.version) as updated_at, h.version, h.status,
  (select p.status from mirror.history p
    where p.source_id = h.source_id and p.reference = h.reference and p.verdict in ('applied', 'corrected', 'stale')
      and not p.refuted and p.version < h.version
    order by p.version desc, p.settled desc, p.observed_at desc, p.rank desc, p.hash desc limit 1) as previous_status,
  h.via::text as learned_via, h.via = 'webhook' or coalesce(e.received_at <= h.seen_at, false) as learned_by_webhook,
  h.seen_at as learned_at,
  h.via not in ('backfill', 'write') and h.version > (
      select mirror.nanos_of(s.created_at) from mirror.sources s where s.source_id = h.source_id)
    and exists (
      select from mirror.history p
      where p.source_id = h.source_id and p.reference = h.reference and p.verdict in ('applied', 'corrected', 'stale')
        and not p.refuted and p.version < h.version and p.history_id < h.history_id) as expected,
  extract(epoch from h.seen_at - mirror.instant_at(h.version))::double precision as learned_delay_seconds,
  e.event_id is not null as announced, e.event_id, e.event_type, e.received_at as event_received_at,
  extract(epoch from e.received_at - mirror.instant_at(h.version))::double precision as event_delay_seconds
from mirror.history h
left join lateral (
  select a.event_id, a.event_type, i.received_at
  from mirror.history a left join mirror.inbox i on i.seq = a.inbox_seq
  where a.source_id = h.source_id and a.reference = h.reference and a.status is not distinct from h.status
    and mirror.same_instant(a.version, h.version) and a.via = 'webhook'
  order by a.history_id limit 1
) e on true
where h.verdict in ('applied', 'stale') and not h.refuted
  and ((select every_source from mirror.reader) or h.source_id = any ((select sources from mirror.reader)::text[]))
  and not exists (
    select from mirror.history f
    where f.source_id = h.source_id and f.reference = h.reference and f.version = h.version
      and f.verdict in ('applied', 'stale') and f.history_id < h.history_id);
comment on view   reporting.webhook_reliability                       is 'One row per change of an order (one updatedAt): whether an event or a read brought it first, and how late. Filter by source_id and learned_at, or by reference. The provider announces only some changes, and nothing on the Standard plan: a change without an event is not necessarily a lost event.';
comment on column reporting.webhook_reliability.previous_status       is 'Status of the latest known earlier state; null when none is known.';
comment on column reporting.webhook_reliability.learned_via           is 'What brought the change first: webhook, poll, backfill, refetch, verify or write.';
comment on column reporting.webhook_reliability.learned_by_webhook    is 'True when an event of it had been received before a read found it, whenever the event was decided.';
comment on column reporting.webhook_reliability.expected              is 'True for a change that an event was to announce: not the first state of an order, nothing older than the source, and nothing that a backfill or a write brought. Rates leave out the others.';
comment on column reporting.webhook_reliability.learned_delay_seconds is 'Seconds from updated_at, by the provider''s clock, to learned_at, by ours.';
comment on column reporting.webhook_reliability.announced             is 'True when an event about it has arrived, before or after a read.';
comment on column reporting.webhook_reliability.event_delay_seconds   is 'Seconds from updated_at, by the provider''s clock, to event_received_at, by ours.';

create view mirror.exceptions as
select source_id, reference, (array_agg(kind order by kind = 'late_event', found_at))[1] as kind, min(found_at) as found_at, entry
from (
  select source_id, reference, reason as kind, quarantined_at as found_at,
    -- What names no order cannot be told apart: each entry may be another one.
    case when reference is null then quarantine_id end as entry
  from mirror.quarantine where inbox_seq is null
  union all
  select source_id, reference,
    case
      when missed_at is not null then 'missing'
      when unconfirmed then 'unconfirmed'
      when replayed then 'replayed'
      else 'late_event'
    end,
    requested_at, null
  from mirror.refetches where claim_version is not null or unconfirmed or replayed or missed_at is not null
) excepted
group by source_id, reference, entry;
comment on view mirror.exceptions is 'Exceptions to safe_through, one row per order: orders that were seen but could not be read, with their quarantine reason, whether a person dismissed the entry or not; those that are being read again (replayed), that one single read did not find (missing), or whose state in a proved window was not shown by any read of that window (unconfirmed); and late changes from events that no read has confirmed yet (late_event). A good read of the order ends its exception.';

create view reporting.coverage_breaches with (security_barrier) as
select source_id, breach_id, mirror.instant_at(since) as since, mirror.instant_at(until) as until,
  (until - since) / 1e9::double precision as span_seconds, kind, reference, mirror.instant_at(version) as updated_at,
  found_by, found_at, detail, mirror.instant_at(safe_through_before) as safe_through_before,
  mirror.instant_at(safe_through_after) as safe_through_after, reproved_at
from mirror.coverage_breaches b
where ((select every_source from mirror.reader) or b.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.coverage_breaches              is 'One row per proof that was withdrawn because a change that it had missed was found: reports on that period made before found_at were incomplete. The period is read again automatically.';
comment on column reporting.coverage_breaches.since        is 'Start of the period, inclusive.';
comment on column reporting.coverage_breaches.until        is 'End of the period, exclusive.';
comment on column reporting.coverage_breaches.kind         is 'missed_change: a read found a change that the mirror did not have. differing: a read found different content for an updatedAt that the mirror had. late_event: an event brought a change that the mirror did not have, and a single read confirmed it.';
comment on column reporting.coverage_breaches.found_by     is 'How it was found: poll, backfill, refetch or verify.';
comment on column reporting.coverage_breaches.found_at     is 'When it was found, by the database''s clock.';
comment on column reporting.coverage_breaches.detail       is 'What the mirror had before.';
comment on column reporting.coverage_breaches.reproved_at  is 'When the span was proved again; null until then.';

create view reporting.coverage_gaps with (security_barrier) as
select c.source_id, mirror.instant_at(lower(gap)) as since, mirror.instant_at(upper(gap)) as until,
  (upper(gap) - lower(gap)) / 1e9::double precision as span_seconds
from (
  -- From the intended start of the history to the end of what is proved. Windows that prove nothing cover nothing.
  select w.source_id,
    int8multirange(int8range(least(coalesce(min(p.history_since), min(w.since)), max(w.until)), max(w.until)))
      - range_agg(int8range(w.since, w.until)) as missing
  from mirror.proved w left join mirror.poll_state p using (source_id)
  group by w.source_id
) c
cross join lateral unnest(c.missing) as gap
where ((select every_source from mirror.reader) or c.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.coverage_gaps              is 'One row per period, from the start of the history to the end of what is proved, that no proved window covers: changes in it may be missing. Empty if all is well. While the history of a new source is being read, it shows what remains.';

create function reporting.orders_as_of(instant timestamptz)
returns table (
  source_id text, reference text, external_order_id text, status text, livemode boolean, fleet_name text,
  branch_id text, branch_reference text, schedule_mode text, pickup_time timestamptz, delivery_time timestamptz,
  real_pickup_time timestamptz, real_delivery_time timestamptz, updated_at timestamptz, version bigint)
language sql stable
as $$
  -- Two parts, each with its own index: only orders that changed after the instant are looked up in the history.
  select
    o.source_id, o.reference, o.external_order_id, o.status, o.livemode, o.fleet_name, o.branch_id,
    o.branch_reference, o.schedule_mode, o.pickup_time, o.delivery_time, o.real_pickup_time, o.real_delivery_time,
    o.updated_at, o.version
  from reporting.orders o
  where o.updated_at <= instant
  union all
  select
    o.source_id, o.reference, s.external_order_id, s.status, o.livemode, s.fleet_name, s.branch_id,
    s.branch_reference, s.schedule_mode, s.pickup_time, s.delivery_time, s.real_pickup_time, s.real_delivery_time,
    s.updated_at, s.version
  from reporting.orders o
  cross join lateral (
    select h.external_order_id, h.status, h.fleet_name, h.branch_id, h.branch_reference, h.schedule_mode,
      h.pickup_time, h.delivery_time, h.real_pickup_time, h.real_delivery_time, h.updated_at, h.version
    from reporting.order_history h
    where h.source_id = o.source_id and h.reference = o.reference
      and h.has_content and h.verdict in ('applied', 'corrected', 'stale') and not h.refuted
      -- updated_at <= instant, by the column that has an index; bounded, because an instant may be infinite.
      and h.version <= greatest(least(extract(epoch from instant) * 1000000000 + 999, 9223372036854775807), -9223372036854775808)::bigint
    order by h.version desc, h.settled desc, h.observed_version desc, h.status_place desc, h.history_id desc
    limit 1
  ) s
  where o.updated_at > instant
$$;
comment on function reporting.orders_as_of is 'The orders as they were at an instant, by the provider''s updatedAt: for each order, the last state seen that is not younger than the instant. Orders whose first known state is younger, and orders that the provider no longer has, are left out. A state that was never observed cannot be shown. No instant (null) gives no rows. Filter by source_id and reference where possible.';

create procedure mirror.prepare_reader()
language plpgsql as $$
declare
  open_function regprocedure;
  is_ours boolean;
  may_revoke boolean;
  process text;
begin
  if not exists (select from pg_catalog.pg_roles where rolname = 'order_mirror_reader') then
    begin
      create role order_mirror_reader nologin;
    exception
      -- Roles belong to the whole server: another database's migration may have created it at the same moment.
      when duplicate_object or unique_violation then null;
      when insufficient_privilege then
        raise notice 'The role order_mirror_reader could not be created (CREATEROLE is needed). Have it created, then: call mirror.prepare_reader()';
        return;
    end;
  end if;
  -- Where the database is closed to others.
  execute pg_catalog.format('grant connect on database %I to order_mirror_reader', pg_catalog.current_database());
  grant usage on schema reporting to order_mirror_reader;
  grant select on all tables in schema reporting to order_mirror_reader;
  alter default privileges in schema reporting grant select on tables to order_mirror_reader;
  -- What reporting.require asks, with the owner's rights.
  grant execute on function mirror.require_day(text, date, boolean, boolean) to order_mirror_reader;
  -- Every session has these rights by default. With temporary tables, large objects and messages in the log it can fill the
  -- disk; with an advisory lock that a writer needs it can hold up all who apply. Only the database's owner can revoke the
  -- first, and only an administrator the others; config/postgres-logins.sql does so as an administrator.
  execute pg_catalog.format('revoke temporary on database %I from public', pg_catalog.current_database());
  for open_function, is_ours, may_revoke in
    select p.oid::regprocedure, p.proname !~ '^lo_', pg_catalog.pg_has_role(p.proowner, 'usage') from pg_catalog.pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace
      and p.proname ~ '^(lo_creat|lo_create|lo_from_bytea|pg_logical_emit_message|pg_(try_)?advisory_(xact_)?lock(_shared)?)$'
      and (p.proacl is null or exists (select from pg_catalog.aclexplode(p.proacl) as granted where granted.grantee = 0))
  loop
    if not may_revoke then
      raise notice 'Readers may fill the disk and hold up who applies. Have an administrator run: call mirror.prepare_reader()';
      exit;
    end if;
    execute pg_catalog.format('revoke execute on function %s from public', open_function);
    if is_ours then
      execute pg_catalog.format('grant execute on function %s to %s with grant option', open_function,
        (select nspowner::regrole from pg_catalog.pg_namespace where nspname = 'mirror'));
      -- The processes' roles may have had it only as everybody has.
      for process in
        select rolname from pg_catalog.pg_roles where rolname in ('order_mirror_web', 'order_mirror_worker', 'order_mirror_poller')
      loop
        execute pg_catalog.format('grant execute on function %s to %I', open_function, process);
      end loop;
    end if;
  end loop;
  begin
    call mirror.limit_reader('order_mirror_reader');
  exception when insufficient_privilege then
    raise notice 'The role order_mirror_reader has its rights but not its limits (%). Have an administrator run: call mirror.prepare_reader()', sqlerrm;
  end;
end
$$;
comment on procedure mirror.prepare_reader is 'Creates the role order_mirror_reader, which may read the schema reporting and nothing else. Safe to call again.';

create procedure mirror.limit_reader(role_name text)
language plpgsql as $$
declare
  wanted constant text[] := array['default_transaction_read_only=on', 'statement_timeout=60s', 'lock_timeout=5s',
    'idle_in_transaction_session_timeout=60s', 'search_path=reporting', 'temp_file_limit=1GB'];
  setting text;
begin
  foreach setting in array wanted loop
    -- Existing settings are kept: the owner may have chosen them, and two databases of one server that write the
    -- same row at the same time would collide.
    continue when exists (
      select from pg_catalog.pg_db_role_setting s
      join pg_catalog.pg_roles r on r.oid = s.setrole
      cross join lateral unnest(s.setconfig) as present
      where r.rolname = role_name and s.setdatabase = 0 and split_part(present, '=', 1) = split_part(setting, '=', 1));
    begin
      execute pg_catalog.format('alter role %I set %I to %L', role_name, split_part(setting, '=', 1), split_part(setting, '=', 2));
    exception
      -- "tuple concurrently updated": the other database writes the same settings.
      when internal_error then null;
      when insufficient_privilege then
        -- Only an administrator, or whom one gave the right (config/postgres-logins.sql), may limit temporary files.
        if setting not like 'temp_file_limit=%' then raise; end if;
        raise notice 'A sort of % may fill the disk. Have an administrator run: alter role % set temp_file_limit to ''1GB''', role_name, quote_ident(role_name);
    end;
  end loop;
end
$$;
comment on procedure mirror.limit_reader is 'Gives a role the settings of a reader: read-only, one minute per statement, one minute idle in a transaction, 1 GB of temporary files. Members do not inherit settings, so each login role needs its own.';

create procedure mirror.admit_reader(login_name text, source_name text default '*')
language plpgsql as $$
begin
  if source_name is distinct from '*' and not exists (select from mirror.sources where source_id = source_name) then
    raise exception 'there is no source %', source_name using errcode = 'undefined_object',
      hint = 'Sources are listed in reporting.sync_status, once a process has started with them.';
  end if;
  -- What a former role of the same name was admitted to does not count.
  if not pg_catalog.pg_has_role(login_name, 'order_mirror_reader', 'member') then
    delete from mirror.reader_sources where login = login_name;
  end if;
  execute pg_catalog.format('grant order_mirror_reader to %I', login_name);
  insert into mirror.reader_sources (login, source_id) values (login_name, source_name) on conflict do nothing;
  call mirror.limit_reader(login_name);
  -- A different number is the owner's choice and is kept.
  if (select rolconnlimit = -1 from pg_catalog.pg_roles where rolname = login_name) then
    execute pg_catalog.format('alter role %I connection limit 5', login_name);
  end if;
end
$$;
comment on procedure mirror.admit_reader is 'Lets a login role read a source in the schema reporting, or every source, later ones too, within the limits of a reader and with at most five connections, unless it already has a limit. For several sources, call it for each.';

create procedure mirror.dismiss_reader(login_name text)
language plpgsql as $$
begin
  delete from mirror.reader_sources where login = login_name;
  execute pg_catalog.format('revoke order_mirror_reader from %I', login_name);
end
$$;
comment on procedure mirror.dismiss_reader is 'Takes from a login role what mirror.admit_reader gave it: it reads nothing any more. Call it before dropping the role.';

create view reporting.outgoing_webhooks with (security_barrier) as
with readable as not materialized (
  select d.* from mirror.outgoing_deliveries d
  where ((select every_source from mirror.reader) or d.source_id = any ((select sources from mirror.reader)::text[]))
)
select e.endpoint_id, d.pending_count, d.dead_count, d.oldest_pending_at, d.newest_delivered_at,
  e.failures_in_row
from mirror.outgoing_endpoints e
cross join lateral (
  select
    (select count(*) from readable p where p.endpoint_id = e.endpoint_id and p.state = 'pending') as pending_count,
    (select count(*) from readable p where p.endpoint_id = e.endpoint_id and p.state = 'dead' and p.event_type <> 'test') as dead_count,
    (select min(p.created_at) from readable p where p.endpoint_id = e.endpoint_id and p.state = 'pending') as oldest_pending_at,
    (select max(p.delivered_at) from readable p where p.endpoint_id = e.endpoint_id and p.state = 'delivered') as newest_delivered_at
) d
where (select every_source from mirror.reader) or e.source_ids && (select sources from mirror.reader)::text[];
comment on view   reporting.outgoing_webhooks                     is 'One row per own endpoint of the business that is notified of changes: whether it receives them.';
comment on column reporting.outgoing_webhooks.dead_count          is 'Messages that were given up and wait for a person.';
comment on column reporting.outgoing_webhooks.newest_delivered_at is 'When the last message was delivered, within the last week.';

create view reporting.order_facts with (security_barrier) as
select
  o.source_id, o.reference, o.external_order_id, o.status, mirror.is_open(o.status, o.real_delivery_time) as is_open,
  coalesce(o.branch_id, b.branch_id) as branch_id, coalesce(b.reference, o.branch_reference) as branch_reference,
  b.name as branch_name, o.fleet_name,
  o.pickup_time, o.delivery_time, o.real_pickup_time, o.real_delivery_time,
  t.created_at, t.arrived_for_pickup_at, coalesce(t.picked_up_at, o.real_pickup_time) as picked_up_at, t.arrived_for_delivery_at, t.other_status_at, t.cancelled_at,
  t.created_seconds, t.arrived_for_pickup_seconds, t.picked_up_seconds, t.arrived_for_delivery_seconds,
  date_part('epoch', o.real_pickup_time - t.created_at) as created_to_pickup_seconds,
  date_part('epoch', o.real_delivery_time - t.created_at) as created_to_delivery_seconds,
  date_part('epoch', o.real_delivery_time - o.real_pickup_time) as transit_seconds,
  date_part('epoch', o.real_pickup_time - o.pickup_time) as pickup_delay_seconds,
  date_part('epoch', o.real_delivery_time - o.delivery_time) as delivery_delay_seconds,
  o.real_delivery_time > o.delivery_time as is_late,
  o.first_seen_via::text as first_seen_via, o.first_seen_at, o.first_seen_via = 'webhook' as first_seen_by_event,
  (
    select count(*)::integer from mirror.history h
    where h.source_id = o.source_id and h.reference = o.reference and h.verdict = 'corrected') as corrections,
  o.updated_at
from mirror.orders o
cross join lateral (
  select
    mirror.instant_at(min(version) filter (where status = 'created')) as created_at,
    mirror.instant_at(min(version) filter (where status = 'arrived_for_pickup')) as arrived_for_pickup_at,
    mirror.instant_at(min(version) filter (where status = 'picked_up')) as picked_up_at,
    mirror.instant_at(min(version) filter (where status = 'arrived_for_delivery')) as arrived_for_delivery_at,
    mirror.instant_at(min(version) filter (where status not in (
      'created', 'arrived_for_pickup', 'picked_up', 'arrived_for_delivery', 'cancelled'))) as other_status_at,
    mirror.instant_at(min(version) filter (where status = 'cancelled')) as cancelled_at,
    -- Of the first time in a status.
    (array_agg(seconds order by step) filter (where status = 'created'))[1] as created_seconds,
    (array_agg(seconds order by step) filter (where status = 'arrived_for_pickup'))[1] as arrived_for_pickup_seconds,
    (array_agg(seconds order by step) filter (where status = 'picked_up'))[1] as picked_up_seconds,
    (array_agg(seconds order by step) filter (where status = 'arrived_for_delivery'))[1] as arrived_for_delivery_seconds
  from mirror.order_steps s where s.source_id = o.source_id and s.reference = o.reference
) t
left join lateral (
  select b.branch_id, b.reference, b.name from mirror.branches b
  where b.source_id = o.source_id and (b.branch_id = o.branch_id or o.branch_id is null and b.reference = o.branch_reference)
  order by b.closed_at desc nulls first, b.branch_id limit 1) b on true
where o.gone_at is null and ((select every_source from mirror.reader) or o.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.order_facts                              is 'One narrow row per order: times and durations of its statuses, planned and actual times, and how the mirror learned of it. Computed from the history: a status of which retention has removed all observations has no time. Orders that the provider no longer has are left out. Filter by source_id and pickup_time or delivery_time.';
comment on column reporting.order_facts.created_at                   is 'When the order was first known to be in the status created, by updatedAt; null if no such state was seen.';
comment on column reporting.order_facts.arrived_for_pickup_at        is 'The same for arrived_for_pickup. If only polling saw the order, the status may have begun earlier, or may never have been seen.';
comment on column reporting.order_facts.picked_up_at                 is 'The same for picked_up; real_pickup_time where no such state was seen.';
comment on column reporting.order_facts.arrived_for_delivery_at      is 'The same for arrived_for_delivery.';
comment on column reporting.order_facts.other_status_at              is 'The same for the first status that the provider does not document, such as the one after a delivery.';
comment on column reporting.order_facts.cancelled_at                 is 'The same for cancelled.';
comment on column reporting.order_facts.created_seconds              is 'Seconds from created_at to the next status, whichever it is; null where the next documented status that was seen is neither created again nor arrived_for_pickup, so also for an order that was cancelled before: one between them may not have been seen.';
comment on column reporting.order_facts.arrived_for_pickup_seconds   is 'Seconds from arrived_for_pickup_at to the next status: how long the courier waited, unless a status that the provider does not document came before the pickup. Null where the next documented status that was seen comes after picked_up.';
comment on column reporting.order_facts.picked_up_seconds            is 'Seconds from picked_up_at to the next status; null where the next documented status that was seen comes after arrived_for_delivery.';
comment on column reporting.order_facts.arrived_for_delivery_seconds is 'Seconds from arrived_for_delivery_at to the next status.';
comment on column reporting.order_facts.transit_seconds              is 'Seconds from the actual pickup to the actual delivery.';
comment on column reporting.order_facts.pickup_delay_seconds         is 'Seconds that the pickup was late; negative when early.';
comment on column reporting.order_facts.delivery_delay_seconds       is 'Seconds that the delivery was late; negative when early.';
comment on column reporting.order_facts.is_late                      is 'True when it was delivered after the planned time; null until it is delivered.';
comment on column reporting.order_facts.first_seen_by_event          is 'True when an event brought the order first, false when a read or a write did.';
comment on column reporting.order_facts.corrections                  is 'How often the order went back to an earlier updated_at.';

create view reporting.daily with (security_barrier) as
select
  d.*,
  coalesce(mirror.nanos_of((d.day + 1)::timestamptz) <= p.safe_through and mirror.nanos_of(d.day::timestamptz) >= p.history_since, false)
    as is_final
from (
  select source_id, pickup_time::date as day, branch_id, branch_reference, branch_name, fleet_name,
    count(*) as orders,
    count(*) filter (where is_open) as open_orders,
    count(*) filter (where status = 'cancelled') as cancelled_orders,
    count(real_delivery_time) as delivered_orders,
    count(*) filter (where is_late) as late_deliveries,
    coalesce(sum(delivery_delay_seconds) filter (where is_late), 0) as late_seconds,
    count(created_to_delivery_seconds) as timed_deliveries,
    coalesce(sum(created_to_delivery_seconds), 0) as delivery_seconds,
    sum(corrections) as corrections
  from reporting.order_facts
  where pickup_time is not null
  group by 1, 2, 3, 4, 5, 6
) d
left join mirror.poll_state p on p.source_id = d.source_id;
comment on view   reporting.daily                   is 'The rows of order_facts, added up: one row per day of the planned pickup, branch and fleet. Days are those of the session''s time zone. Columns can be summed over days, branches and fleets. Filter by source_id and day.';
comment on column reporting.daily.day               is 'Day of the planned pickup. Orders without a planned pickup are left out.';
comment on column reporting.daily.delivered_orders  is 'How many of them have an actual delivery time.';
comment on column reporting.daily.timed_deliveries  is 'How many delivered orders have a known creation time.';
comment on column reporting.daily.delivery_seconds  is 'Seconds from creation to delivery of those, in total.';
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
  (select count(*) from mirror.awaited_reads r where r.source_id = s.source_id) as refetch_count,
  (select count(*) from mirror.exceptions e where e.source_id = s.source_id) as exceptions,
  (select count(*) from mirror.coverage_breaches b where b.source_id = s.source_id) as breaches
from mirror.sources s
left join mirror.poll_state p on p.source_id = s.source_id
where ((select every_source from mirror.reader) or s.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.sync_status                          is 'One row per source: how far its data can be trusted. Put safe_through on every report as "data as of".';
comment on column reporting.sync_status.safe_through             is 'The mirror has every change that the provider dates before this instant, as far as all evidence shows, except for the orders counted in exceptions. Goes back only with a new row in coverage_breaches. Null until the first proof.';
comment on column reporting.sync_status.polled_through           is 'How far the last quick poll reached.';
comment on column reporting.sync_status.last_error               is 'Why the last poll failed; null when it did not fail.';
comment on column reporting.sync_status.branches_read_at         is 'The branches are as the provider had them at this time. Null until they were first read.';
comment on column reporting.sync_status.pending_event_count      is 'Events received and not yet applied.';
comment on column reporting.sync_status.quarantined_count        is 'Input that could not be applied and waits for a person.';
comment on column reporting.sync_status.refetch_count            is 'Orders that are to be read again one by one.';
comment on column reporting.sync_status.exceptions               is 'Orders that were seen but could not be read, and changes from events that no read has confirmed yet: safe_through does not cover them.';
comment on column reporting.sync_status.breaches                 is 'How often a proof was withdrawn: see coverage_breaches.';

create function reporting.require(source text, day date, allow_exceptions boolean default false) returns timestamptz
language sql stable
return mirror.require_day(source, day, allow_exceptions,
  exists (select from reporting.sync_status s where s.source_id = source));
comment on function reporting.require is 'Raises an error with the SQLSTATE OM412 unless the mirror has every change of a day, in the session''s time zone; otherwise returns safe_through. For jobs that must not run on unfinished data: call it as a statement of its own, in the transaction of the job. Orders that safe_through excepts are refused, too, because they may have changed on that day, unless allow_exceptions is true.';

-- A column means the same in every view, so it is described in the first one that has it. Some names say all.
do $$
declare missing record;
begin
  for missing in
    select c.relname, a.attname, (
      select d.description from pg_attribute f join pg_class v on v.oid = f.attrelid and v.relnamespace = c.relnamespace
        join pg_description d on d.objoid = v.oid and d.objsubid = f.attnum and d.classoid = 'pg_class'::regclass
      where f.attname = a.attname order by v.oid limit 1) as description
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
    where c.relnamespace = 'reporting'::regnamespace and col_description(c.oid, a.attnum) is null
  loop
    execute format('comment on column reporting.%I.%I is %L', missing.relname, missing.attname, missing.description);
  end loop;
end $$;

-- Postgres lets everybody execute a new function. Each role gets the functions that it needs by name: readers here, the
-- processes in config/postgres-roles.sql. Functions that only convert their arguments stay open, because views call them
-- with the rights of whoever reads.
revoke execute on all routines in schema mirror from public;
grant execute on function mirror.last_digit, mirror.same_instant, mirror.instant_at, mirror.nanos_of, mirror.readable_json,
  mirror.replace_unreadable, mirror.cast_time, mirror.read_time, mirror.plain_value, mirror.time_value, mirror.redact_order, mirror.change_digest, mirror.is_open to public;

call mirror.prepare_reader();
