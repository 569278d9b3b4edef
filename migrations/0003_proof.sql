-- Completeness: what was read when, what that proves, what takes it back, requests to read a period, and lost events.

create table mirror.webhook_hours (
  source_id     text not null references mirror.sources,
  hour          timestamptz not null,
  status        text not null,
  outcome       text not null check (outcome in ('announced', 'late', 'lost')),
  up_to_seconds integer not null,
  changes       bigint not null,
  primary key (source_id, hour, status, outcome, up_to_seconds)
);
comment on table  mirror.webhook_hours               is 'Changes of status that webhooks should have announced, counted by the hour in which the mirror learned of them: computed from the history and the inbox, and kept because these are not kept for ever.';
comment on column mirror.webhook_hours.hour          is 'The hour in which the mirror learned of the changes; -infinity: all that are older than 30 days.';
comment on column mirror.webhook_hours.outcome       is 'announced: its event was received before a read found it. late: after that. lost: no event was received within event_grace after that, of a status that events announce.';
comment on column mirror.webhook_hours.up_to_seconds is 'Longest delay counted here, in seconds from updatedAt to the receipt of the event; 2147483647: any longer one; 0 for lost.';

create index found_by_reads on mirror.history (source_id, seen_at)
  where via in ('poll', 'refetch', 'verify') and verdict = 'applied';

create view mirror.status_changes as
select h.source_id, h.reference, h.history_id, h.inbox_seq, h.status, h.version, h.via, h.seen_at
from mirror.history h join mirror.sources s using (source_id)
where h.verdict = 'applied' and h.previous_status is not null and h.status is distinct from h.previous_status
  and h.version > mirror.nanos_of(s.created_at);
comment on view mirror.status_changes is 'Changes of status that an event was to announce. The first state of an order does not count, nor what is older than the source.';

-- What is in the inbox was received, whenever it is decided: an undecided event may be the one that is missing.
create view mirror.unannounced_changes as
select h.source_id, h.reference, h.status, h.version, h.via, h.seen_at as found_at,
  case
    when e.received_at is not null then 'late'
    when h.seen_at > clock_timestamp() - s.event_grace or exists (
      select from mirror.pending p
      where p.source_id = h.source_id and p.received_at <= h.seen_at + s.event_grace) then 'waiting'
    when exists (
      select from mirror.webhook_hours w
      where w.source_id = h.source_id and w.status = h.status and w.outcome <> 'lost')
    or exists (
      select from mirror.history a
      where a.source_id = h.source_id and a.reference = h.reference and a.status = h.status and a.via = 'webhook') then 'lost'
    else 'not_announced'
  end as state,
  e.received_at as announced_at, e.event_id
from mirror.status_changes h
join mirror.sources s using (source_id)
-- The first event of that status since the state before. An earlier one announced that the order had the status once.
left join lateral (
  select coalesce(i.received_at, a.seen_at) as received_at, a.event_id
  from mirror.history a left join mirror.inbox i on i.seq = a.inbox_seq and i.source_id = a.source_id
  where a.source_id = h.source_id and a.reference = h.reference and a.status = h.status and a.via = 'webhook'
    and (a.version <= h.version or mirror.same_instant(a.version, h.version))
    and not exists (
      select from mirror.history p
      where p.source_id = h.source_id and p.reference = h.reference and p.version >= a.version
        and p.history_id < h.history_id and p.verdict in ('applied', 'corrected') and not p.refuted
        and p.status is distinct from h.status and not mirror.same_instant(p.version, h.version))
  order by 1 limit 1
) e on true
where h.via in ('poll', 'refetch', 'verify') and (e.received_at is null or e.received_at > h.seen_at);
comment on view   mirror.unannounced_changes              is 'Changes of status that a read found before an event of them was received, without those that a backfill or a write brought.';
comment on column mirror.unannounced_changes.state        is 'waiting: its event may still come, or waits for a decision. late: it came after the read. lost: it did not come within event_grace. not_announced: no event of that status was ever seen.';

create table mirror.period_requests (
  request_id   bigint generated always as identity primary key,
  source_id    text not null references mirror.sources,
  kind         text not null check (kind in ('backfill', 'verification')),
  since        bigint not null,
  until        bigint not null,
  nightly      boolean not null default false,
  state        text not null default 'requested'
    check (state in ('requested', 'running', 'done', 'failed', 'cancelled')),
  read_down_to bigint not null,
  unproved     integer not null default 0,
  requests     bigint not null default 0,
  orders       bigint not null default 0,
  differed     bigint not null default 0,
  unreadable   bigint not null default 0,
  examples     text[] not null default '{}',
  failures     integer not null default 0,
  last_error   text,
  requested_at timestamptz not null default clock_timestamp(),
  started_at   timestamptz,
  ended_at     timestamptz,
  check (since < until)
);
comment on table  mirror.period_requests              is 'Periods of updatedAt to be read (backfill) or compared with the provider (verification), with their progress. The leading poller processes them, newest part first.';
comment on column mirror.period_requests.until        is 'End of the period, exclusive, nanoseconds since 1970. Lowered at the start to what can be proved then.';
comment on column mirror.period_requests.unproved     is 'Windows in which orders may be missing, because orders that share a timestamp came in a different sequence each time.';
comment on column mirror.period_requests.differed     is 'Orders that the mirror did not have, had in another state, or that the provider does not have. Each of them was repaired.';
comment on column mirror.period_requests.unreadable   is 'Orders of which no read has shown yet whether they differ: the read failed or was too early to refute what the mirror has, or there were too many to read one by one.';
create index period_requests_open on mirror.period_requests (source_id, kind, request_id) where state in ('requested', 'running');
create index period_requests_nightly on mirror.period_requests (source_id, requested_at) where nightly;
-- A proof can be withdrawn: safe_through holds as far as all evidence shows, and any process may find evidence that
-- something was missing.

create function mirror.withdraw_proof(
  proved_source text, change_version bigint, breach_kind text, found_reference text, found_via text, breach_detail text)
returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  second constant bigint := 1000000000;
  history bigint;
  safe bigint;
  safe_after bigint;
  withdrawn int8range;
  affected int8multirange;
begin
  -- A transaction that commits a window waits here, and then sees what was withdrawn.
  select history_since, safe_through into history, safe from mirror.poll_state
  where source_id = proved_source for update;
  if not exists (
    select from mirror.proved p
    where p.source_id = proved_source and p.until > change_version and p.since <= change_version
  ) then
    return false;
  end if;
  -- The windows that had claimed it, as far as they are still known, and at least the second around it. Not those that
  -- an earlier breach kept: the parts in which they were walked are no longer known.
  select int8range(
    least(change_version - change_version % second, min(c.since)),
    greatest(change_version - change_version % second + second, max(c.until)))
  into withdrawn from mirror.coverage c
  where c.source_id = proved_source and c.proved and c.sweep <> 'kept'
    and c.until > change_version and c.since <= change_version;
  select range_agg(int8range(p.since, p.until)) into affected from mirror.proved p
  where p.source_id = proved_source and p.until > lower(withdrawn) and p.since < upper(withdrawn);
  update mirror.coverage c set proved = false, awaits_head = false
  where c.source_id = proved_source and (c.proved or c.awaits_head) and c.until > lower(withdrawn) and c.since < upper(withdrawn);
  safe_after := case when safe > lower(withdrawn) then greatest(history, lower(withdrawn)) else safe end;
  update mirror.poll_state set safe_through = safe_after where source_id = proved_source;
  -- The proof of other times remains valid, so that safe_through jumps forward when the range is read again.
  insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders)
  select proved_source, lower(rest), upper(rest), 'kept', true, 0, 0, 0
  from unnest(affected - int8multirange(withdrawn)) as rest
  where not rest <@ int8range(history, greatest(history, safe_after));
  insert into mirror.coverage_breaches (
    source_id, since, until, kind, reference, version, found_by, detail, safe_through_before, safe_through_after)
  values (proved_source, lower(withdrawn), upper(withdrawn), breach_kind, found_reference, change_version, found_via,
    breach_detail, safe, safe_after);
  return true;
end
$$;
comment on function mirror.withdraw_proof is 'Withdraws the proof of the windows that contain a change they missed, and records the breach; false when no proof covers that change. Needs no lease: any process may find the evidence.';

create function mirror.proved_until(sources text[]) returns bigint
language plpgsql volatile as $$
begin
  return (
    select max(greatest(p.safe_through, (
      select c.until from mirror.coverage c
      where c.source_id = s.source_id and c.proved order by c.until desc limit 1)))
    from (select distinct source_id from unnest(sources) as source_id) s
    left join mirror.poll_state p using (source_id));
end
$$;
comment on function mirror.proved_until is 'No proof of these sources covers this instant or a later one; null when nothing is proved. Sees everything that was committed before the call, even after the calling statement began.';

create function mirror.find_breaches(decisions json)
returns table (claim_source text, claim_reference text, claim_version bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  found record;
begin
  for found in
    with changed as materialized (
      select * from json_to_recordset(decisions) as d (
        source_id text, reference text, version bigint, via text, verdict text, conflict boolean, previous_status text,
        is_new boolean)
      -- An event may go back, too: to a claim that is older than what was dated ahead of its own observation.
      where verdict = 'applied' and (is_new or conflict) or verdict = 'corrected' and via = 'webhook'
    ), oldest as (
      select source_id, min(version) as version from changed group by source_id
    ), proofs as materialized (
      select o.source_id, (
        select range_agg(int8range(p.since, p.until)) from mirror.proved p
        where p.source_id = o.source_id and p.until > o.version) as proof
      from oldest o
    )
    select c.* from changed c join proofs using (source_id)
    where proofs.proof @> c.version
      -- The proof did not cover an order that could not be read.
      and not exists (
        select from mirror.exceptions e
        where e.source_id = c.source_id and e.reference = c.reference and e.kind <> 'late_event')
    order by c.source_id, c.version, c.reference
  loop
    if found.via = 'webhook' then
      claim_source := found.source_id;
      claim_reference := found.reference;
      claim_version := found.version;
      return next;
    elsif found.via in ('poll', 'backfill', 'refetch', 'verify') then
      perform mirror.withdraw_proof(found.source_id, found.version,
        case when found.conflict then 'differing' else 'missed_change' end, found.reference, found.via,
        case
          when found.conflict then 'The mirror had other content under the same updatedAt.'
          when found.previous_status is null then 'The mirror did not have the order.'
          else 'The mirror had an older state of the order.'
        end);
    end if;
  end loop;
end
$$;
comment on function mirror.find_breaches is 'Checks the changes among decisions, in the statement that applies them. When a proof had missed a change, withdraws the proof if a read found the change, and returns the claim if an event brought it.';

create function mirror.follow_up(decisions json, erased_body text) returns integer
language plpgsql as $$
begin
  with decided as materialized (
    select * from json_to_recordset(decisions) as d (
      n integer, history_id bigint, source_id text, reference text, via text, inbox_seq bigint, reason text, detail text,
      version bigint, quarantined_raw bytea, erased boolean, verdict text)
  ), recorded as (
    -- Input that every read shows again is quarantined once; later reads of it are not recorded.
    insert into mirror.history (history_id, source_id, reference, via, verdict, reason, version)
    select history_id, source_id, reference, via, verdict, reason, version
    from decided d
    where verdict = 'quarantined' and inbox_seq is null and not exists (
      select from mirror.quarantine q
      where q.inbox_seq is null and q.source_id = d.source_id and q.raw_hash = sha256(d.quarantined_raw))
  ), quarantined as (
    insert into mirror.quarantine (source_id, via, inbox_seq, reference, reason, detail, version, raw)
    select source_id, via, inbox_seq, reference, reason, detail, version,
      case when inbox_seq is null then quarantined_raw end
    from decided where verdict = 'quarantined' order by n
    on conflict do nothing
  )
  update mirror.inbox set body = convert_to(erased_body, 'UTF8'), headers = null
  where seq = any (array(select inbox_seq from decided where erased and inbox_seq is not null));

  -- All reads are requested by one statement, sorted: otherwise two batches could wait for each other.
  with decided as materialized (
    select * from json_to_recordset(decisions) as d (
      source_id text, reference text, via text, reason text, version bigint, verdict text, doubtful boolean)
  )
  insert into mirror.refetches as request (source_id, reference, reason, claim_version, next_attempt_at)
  select distinct on (source_id, reference) source_id, reference, why, claim, due_at from (
    select source_id, reference, 'conflict' as why, null::bigint as claim, clock_timestamp() as due_at
    from decided where doubtful
    union all
    -- What is dated further ahead is left to polls, which list it when its time comes.
    select source_id, reference, 'dated ahead', null, mirror.instant_at(version) + interval '10 seconds'
    from decided
    where verdict = 'quarantined' and reason = 'dated_ahead'
      and version < mirror.nanos_of(clock_timestamp() + interval '1 day')
    union all
    -- An event contradicts a proof: a read shows which of the two was wrong.
    select claim_source, claim_reference, 'late_event', claim_version, clock_timestamp()
    from mirror.find_breaches(decisions)
    union all
    -- An event that a read had refuted suggests that a list was further behind than assumed: a new read decides.
    select source_id, reference, 'late_event', version, clock_timestamp() from decided d
    where verdict = 'refuted' and via = 'webhook' and exists (
      select from mirror.proved p where p.source_id = d.source_id and p.until > d.version and p.since <= d.version)
  ) asked order by source_id, reference, claim desc nulls last, due_at
  on conflict (source_id, reference) do update set
    reason = excluded.reason, claim_version = excluded.claim_version, requested_at = excluded.requested_at,
    next_attempt_at = excluded.next_attempt_at, attempts = 0, failures = 0, last_error = null
  where excluded.claim_version is not null;
  return json_array_length(decisions);
end
$$;
comment on function mirror.follow_up is 'Does what rarely follows from a decision, in the statement that decides: quarantines input, blanks the bodies of erased orders'' events, requests reads, and finds breaches. Returns the number of decisions that it received.';

create function mirror.explain_incomplete(of_source text, since bigint, until bigint) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  iso constant text := 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"';
  state record;
  gaps int8multirange;
  why text[];
begin
  select s.paused_at, p.history_since, p.safe_through, p.last_error, p.margin_seconds as margin,
    p.clock_wrong_since as clocks_apart, p.list_doubted_at as doubted,
    l.expires_at > clock_timestamp() as led, l.expires_at as led_until
  into state
  from mirror.sources s
  left join mirror.poll_state p using (source_id)
  left join mirror.leases l on l.name = 'poll:' || s.source_id
  where s.source_id = of_source;
  if not found then
    return format('There is no source %s.', of_source);
  end if;
  if state.history_since <= since and state.safe_through >= until then
    return null;
  end if;
  why := array[case
    when state.safe_through is null then format('Nothing of %s is proved yet.', of_source)
    when state.history_since > since then
      format('The history of %s begins at %s.', of_source, to_char(mirror.instant_at(state.history_since) at time zone 'UTC', iso))
    else format('%s is complete up to %s.', of_source, to_char(mirror.instant_at(state.safe_through) at time zone 'UTC', iso))
  end];
  if state.safe_through < until then
    gaps := int8multirange(int8range(state.safe_through, until)) - coalesce((
      select range_agg(int8range(p.since, p.until)) from mirror.proved p
      where p.source_id = of_source and p.until > state.safe_through and p.since < explain_incomplete.until), '{}');
    why := why || (
      select format('Not proved after that: %s to %s%s.',
        to_char(mirror.instant_at(min(lower(gap))) at time zone 'UTC', iso),
        to_char(mirror.instant_at(min(upper(gap))) at time zone 'UTC', iso),
        case when count(*) > 1 then format(', and more in %s later %s', count(*) - 1,
          case count(*) when 2 then 'period' else 'periods' end) end)
      from unnest(gaps) as gap having count(*) > 0);
  end if;
  if state.safe_through is null or state.safe_through < until then
    why := why || case
      when state.paused_at is not null then
        format('Polling has been paused since %s.', to_char(state.paused_at at time zone 'UTC', iso))
      when state.led is not true then
        'No process polls' || coalesce(' since ' || to_char(state.led_until at time zone 'UTC', iso), '') || '.'
      when state.last_error is not null then format('The last poll failed: %s', state.last_error)
      when state.clocks_apart is not null then
        format('Nothing is proved since %s, because the provider''s clock and ours differ.', to_char(state.clocks_apart at time zone 'UTC', iso))
      when state.doubted is not null then
        format('Nothing is proved since %s, because the provider''s list omits orders that the mirror has.', to_char(state.doubted at time zone 'UTC', iso))
      when state.margin is not null then format('A change is proved %s s after its time at the earliest.', ceil(state.margin))
    end;
  end if;
  return array_to_string(why, ' ');
end
$$;
comment on function mirror.explain_incomplete is 'Why the mirror of a source does not have every change from since to until (nanoseconds since 1970), in words: how far it is complete, what is not proved, and what holds it up. Null when it is complete, apart from mirror.exceptions.';

create function mirror.require_day(source text, day date, allow_exceptions boolean, readable boolean) returns timestamptz
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  excepted bigint;
  why text;
begin
  if source is null or day is null or allow_exceptions is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'reporting.require needs a source and a day';
  end if;
  -- Nanoseconds since 1970 in 64 bits end in 2262; an infinite date has no end.
  if day not between date '1700-01-01' and date '2261-12-31' then
    raise exception using errcode = 'datetime_field_overflow', message = format('reporting.require needs a day of the years 1700 to 2261, not %s', day);
  end if;
  why := case when readable
    then mirror.explain_incomplete(source, mirror.nanos_of(day::timestamptz), mirror.nanos_of((day + 1)::timestamptz))
    else format('There is no source %s.', source) end;
  if why is not null then
    raise exception using errcode = 'OM412',
      message = format('%s is not complete for %s: %s', source, day, why),
      hint = case when readable then 'Run the job again when safe_through in reporting.sync_status has passed the end of the day.'
        else 'Name a source that reporting.sync_status shows to this login.' end;
  end if;
  select count(*) into excepted from mirror.exceptions e where e.source_id = source;
  if excepted > 0 and not allow_exceptions then
    raise exception using errcode = 'OM412',
      message = format('%s is not complete for %s: %s could not be read or confirmed, and may have changed on that day.', source, day,
        case excepted when 1 then 'one order' else excepted || ' orders' end),
      hint = 'The ops page of the source lists these orders. A job that may do without them passes allow_exceptions => true.';
  end if;
  return (select mirror.instant_at(p.safe_through) from mirror.poll_state p where p.source_id = source);
end
$$;
comment on function mirror.require_day is 'The work of reporting.require. readable: whether the caller may read the source; of another one, nothing is revealed.';

-- Runs with the owner's rights, because a login that could write the provider itself could make the poller refuse its own.
create function mirror.record_sources(ids text[], modes text[], base_urls text[], providers text[]) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  insert into mirror.sources (source_id, mode, base_url, provider)
  select * from unnest(ids, modes, base_urls, providers) as c (source_id, mode, base_url, provider) order by source_id
  on conflict (source_id) do update set base_url = excluded.base_url, provider = excluded.provider
  where sources.mode = excluded.mode
    and (sources.base_url, sources.provider) is distinct from (excluded.base_url, excluded.provider)
    and (coalesce(sources.provider, excluded.provider) = excluded.provider or not (
      -- A wrong address may be corrected while nothing was read or received, nor is about to be.
      exists (select from mirror.poll_state p where p.source_id = sources.source_id and p.safe_through is not null)
      or exists (select from mirror.coverage c where c.source_id = sources.source_id)
      or exists (select from mirror.orders o where o.source_id = sources.source_id)
      or exists (select from mirror.inbox i where i.source_id = sources.source_id)
      or exists (
        select from mirror.leases l where l.name = 'poll:' || sources.source_id and l.expires_at > clock_timestamp())))
$$;
comment on function mirror.record_sources is 'Records the configured sources. Skips those with another mode, or with another provider about which something is stored.';
