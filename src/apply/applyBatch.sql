-- Takes the pending rows of the events. A row that another worker has locked is skipped, never waited for: that worker
-- decides on it, or the overdue check does.
with claimed as (
  delete from mirror.pending
  where seq = any (array(
    select pending.seq from mirror.pending where pending.seq = any ($3::bigint[])
    order by pending.seq for update skip locked))
  returning seq
),
-- What remains to decide. Reading JSON is expensive, so the content to store is made once. While eraseOrder holds its
-- lock, this part waits.
subject as materialized (
  select i.n,
      i.source_id, i.via, i.inbox_seq, i.event_id, i.event_type, i.verdict, i.reason, i.detail, i.greatest,
      i.reference, i.horizon, i.version, i.settled, i.observed_at, i.rank, i.hash, i.updated_at,
      i.external_order_id, i.status, i.livemode, i.fleet_name, i.branch_id, i.branch_reference, i.schedule_mode,
      i.resolved_pickup_time, i.resolved_delivery_time, i.resolved_basis, i.pickup_time, i.delivery_time,
      i.real_pickup_time, i.real_delivery_time,
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
    i.greatest and (b.reference is null or 
      (coalesce(i.horizon,
        case when i.version > i.observed_at + 60000000000::bigint then i.observed_at else i.version end),
      i.horizon is not null,
      true, i.version, i.settled, i.observed_at, i.rank, i.hash) > (coalesce(b.horizon,
        case when b.version > b.observed_at + 60000000000::bigint then b.observed_at else b.version end),
      b.horizon is not null,
      b.gone_at is null, b.version, b.settled, b.observed_at, b.rank, b.hash)
    and not (b.gone_at is null and b.hash = i.hash and mirror.same_instant(b.version, i.version) and case
      when b.version = i.version
        then b.settled and b.horizon is not distinct from i.horizon
      else coalesce(b.horizon = i.horizon, i.horizon is null)
        and mirror.last_digit(b.version) <= mirror.last_digit(i.version)
    end)) as contends
  from (
    select (r.place - 1)::int as n,
      r.source_id, r.via, r.inbox_seq, r.event_id, r.event_type, r.verdict, r.reason, r.detail, r.greatest,
      r.reference,
      case when r.horizon <= (select mirror.nanos_of(clock_timestamp()) + 60000000000::bigint) then r.horizon end as horizon,
      r.version, r.settled, r.observed_at, r.rank, r.hash, r.updated_at, r.raw, r.raw_start,
      r.external_order_id, r.status, r.livemode, r.fleet_name, r.branch_id, r.branch_reference, r.schedule_mode,
      r.resolved_pickup_time, r.resolved_delivery_time, r.resolved_basis, r.pickup_time, r.delivery_time,
      r.real_pickup_time, r.real_delivery_time,
      nextval('mirror.history_id') as history_id
    from unnest(
      $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::boolean[],
      $10::text[], $11::bigint[], $12::bigint[], $13::boolean[], $14::bigint[], $15::smallint[], $16::bytea[],
      $17::timestamptz[], $18::text[], $19::integer[], $20::text[], $21::text[], $22::boolean[], $23::text[],
      $24::text[], $25::text[], $26::text[], $27::timestamptz[], $28::timestamptz[], $29::text[],
      $30::timestamptz[], $31::timestamptz[], $32::timestamptz[], $33::timestamptz[]
    ) with ordinality as r (
      source_id, via, inbox_seq, event_id, event_type, verdict, reason, detail, greatest, reference, horizon, version,
      settled, observed_at, rank, hash, updated_at, raw, raw_start, external_order_id, status, livemode,
      fleet_name, branch_id, branch_reference, schedule_mode, resolved_pickup_time, resolved_delivery_time,
      resolved_basis, pickup_time, delivery_time, real_pickup_time, real_delivery_time, place)
    where r.inbox_seq is null or r.inbox_seq in (select seq from claimed)
  ) i
  left join lateral (
    select reference from mirror.erasures where source_id = i.source_id and reference = i.reference limit 1) e on true
  -- The order when the statement began. The limit makes Postgres look it up by its key: a join that was planned while the
  -- table was empty would read the whole table, until the next analysis.
  left join lateral (
    select o.reference, case when o.horizon <= (select mirror.nanos_of(clock_timestamp()) + 60000000000::bigint) then o.horizon end as horizon, o.gone_at, o.version, o.settled, o.observed_at, o.rank, o.hash
    from mirror.orders o
    where i.verdict is null and o.source_id = i.source_id and o.reference = i.reference limit 1) b on true
),
-- Writes the orders, sorted, so that two batches cannot deadlock.
upserted as (
  insert into mirror.orders as o (
    source_id, reference,
      version, settled, updated_at, horizon, observed_at, rank, hash, external_order_id, status, livemode, fleet_name,
      branch_id, branch_reference, schedule_mode, resolved_pickup_time, resolved_delivery_time, resolved_basis,
      pickup_time, delivery_time, real_pickup_time, real_delivery_time,
    raw, history_id, first_seen_via, first_seen_at, changed_at)
  select
    source_id, reference,
      version, settled, updated_at, horizon, observed_at, rank, hash, case when not erased then external_order_id end,
      status, livemode, fleet_name, branch_id, branch_reference, schedule_mode, resolved_pickup_time,
      resolved_delivery_time, resolved_basis, pickup_time, delivery_time, real_pickup_time, real_delivery_time,
    kept, history_id, via, (select clock_timestamp()), (select clock_timestamp())
  from subject where contends order by source_id, reference
  on conflict (source_id, reference) do update set
      horizon = excluded.horizon, observed_at = excluded.observed_at, rank = excluded.rank, hash = excluded.hash,
      external_order_id = excluded.external_order_id, status = excluded.status, livemode = excluded.livemode,
      fleet_name = excluded.fleet_name, branch_id = excluded.branch_id,
      branch_reference = excluded.branch_reference, schedule_mode = excluded.schedule_mode,
      resolved_pickup_time = excluded.resolved_pickup_time,
      resolved_delivery_time = excluded.resolved_delivery_time, resolved_basis = excluded.resolved_basis,
      pickup_time = excluded.pickup_time, delivery_time = excluded.delivery_time,
      real_pickup_time = excluded.real_pickup_time, real_delivery_time = excluded.real_delivery_time,
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
      from (select o.gone_at is null and o.hash = excluded.hash and mirror.same_instant(o.version, excluded.version) as same_state) seen
      -- The stored version has at least as many digits, and stays. A key must not claim a version beyond its horizon.
      cross join lateral (
        select same_state and (o.version = excluded.version or excluded.horizon >= o.version
          and mirror.last_digit(o.version) < mirror.last_digit(excluded.version)) as keeps_version) kept)
  -- The guard: the greater key stays (compareKeys of domain/order/observation.ts).
  where 
      (coalesce(excluded.horizon,
        case when excluded.version > excluded.observed_at + 60000000000::bigint then excluded.observed_at else excluded.version end),
      excluded.horizon is not null,
      excluded.gone_at is null, excluded.version, excluded.settled, excluded.observed_at, excluded.rank, excluded.hash) > (coalesce(case when o.horizon <= (select mirror.nanos_of(clock_timestamp()) + 60000000000::bigint) then o.horizon end,
        case when o.version > o.observed_at + 60000000000::bigint then o.observed_at else o.version end),
      case when o.horizon <= (select mirror.nanos_of(clock_timestamp()) + 60000000000::bigint) then o.horizon end is not null,
      o.gone_at is null, o.version, o.settled, o.observed_at, o.rank, o.hash)
    and not (o.gone_at is null and o.hash = excluded.hash and mirror.same_instant(o.version, excluded.version) and case
      when o.version = excluded.version
        then o.settled and case when o.horizon <= (select mirror.nanos_of(clock_timestamp()) + 60000000000::bigint) then o.horizon end is not distinct from excluded.horizon
      else coalesce(case when o.horizon <= (select mirror.nanos_of(clock_timestamp()) + 60000000000::bigint) then o.horizon end = excluded.horizon, excluded.horizon is null)
        and mirror.last_digit(o.version) <= mirror.last_digit(excluded.version)
    end)
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
    case when has_content and raw_start is not null then ($34::int[])[n + 1] end,
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
    select mirror.follow_up(json_agg(rare), '{"erased":true}') from (
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
from decided order by n
