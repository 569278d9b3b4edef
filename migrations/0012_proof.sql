-- A proof can be taken back: safe_through says what is true as far as anything seen tells, and evidence that something
-- was missing may be found by any process.

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
  -- Whoever commits a window waits here, and then sees what was taken back.
  select history_since, safe_through into history, safe from mirror.poll_state
  where source_id = proved_source for update;
  if not exists (
    select from mirror.proved p
    where p.source_id = proved_source and p.until > change_version and p.since <= change_version
  ) then
    return false;
  end if;
  -- The windows that had claimed it, as far as they are still known, and the second around it at least. What an
  -- earlier breach left standing was walked in parts that nobody knows any more.
  select int8range(
    least(change_version - change_version % second, min(c.since)),
    greatest(change_version - change_version % second + second, max(c.until)))
  into withdrawn from mirror.coverage c
  where c.source_id = proved_source and c.proved and c.sweep <> 'kept'
    and c.until > change_version and c.since <= change_version;
  select range_agg(int8range(p.since, p.until)) into affected from mirror.proved p
  where p.source_id = proved_source and p.until > lower(withdrawn) and p.since < upper(withdrawn);
  update mirror.coverage c set proved = false
  where c.source_id = proved_source and c.proved and c.until > lower(withdrawn) and c.since < upper(withdrawn);
  safe_after := case when safe > lower(withdrawn) then greatest(history, lower(withdrawn)) else safe end;
  update mirror.poll_state set safe_through = safe_after where source_id = proved_source;
  -- What the proof said of other times still stands, so that safe_through jumps forward when the range is read again.
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
comment on function mirror.withdraw_proof is 'Takes back the proof of the windows that contain a change they missed, and records the breach; false when no proof speaks of that change. Needs no lease: any process may find the evidence.';

create function mirror.ask_about_claim(claim_source text, claim_reference text, claim_version bigint) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  insert into mirror.refetches as request (source_id, reference, reason, claim_version)
  values (claim_source, claim_reference, 'late_event', claim_version)
  on conflict (source_id, reference) do update set
    reason = excluded.reason, claim_version = excluded.claim_version, requested_at = excluded.requested_at,
    next_attempt_at = excluded.next_attempt_at, attempts = 0, failures = 0, last_error = null
$$;
comment on function mirror.ask_about_claim is 'Has an order read singly at once, since an event speaks against a proof: the read tells which of the two was wrong.';

create function mirror.find_breaches() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  found record;
begin
  -- Nearly every change is younger than all that is proved; that is seen without the rest.
  if not exists (
    select from fresh f
    where f.version < (select p.safe_through from mirror.poll_state p where p.source_id = f.source_id)
      or f.version < (select c.until from mirror.coverage c
        where c.source_id = f.source_id and c.proved order by c.until desc limit 1)
  ) then
    return null;
  end if;
  for found in
    with oldest as (
      select source_id, min(version) as version from fresh group by source_id
    ), proofs as materialized (
      select o.source_id, (
        select range_agg(int8range(p.since, p.until)) from mirror.proved p
        where p.source_id = o.source_id and p.until > o.version) as proof
      from oldest o
    )
    select f.source_id, f.reference, f.version, f.via, f.previous_status, h.conflict
    from fresh f
    join proofs using (source_id)
    join mirror.history h on h.history_id = f.history_id and h.source_id = f.source_id
    join mirror.orders o on o.source_id = f.source_id and o.reference = f.reference
    where proofs.proof @> f.version and f.verdict = 'applied'
      -- The same state again: the order was taken for gone meanwhile.
      and (h.conflict or o.previous_version is distinct from f.version)
      -- An order that could not be read stood beside the claim.
      and not exists (
        select from mirror.exceptions e
        where e.source_id = f.source_id and e.reference = f.reference and e.kind <> 'late_event')
    order by f.source_id, f.version, f.reference
  loop
    if found.via = 'webhook' then
      perform mirror.ask_about_claim(found.source_id, found.reference, found.version);
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
  return null;
end
$$;
comment on function mirror.find_breaches is 'Looks at each change in the transaction that applies it: one that a proof had missed takes that proof back when a read found it, and asks for a single read when an event brought it.';
create trigger changes_against_proofs after insert on mirror.changes
  referencing new table as fresh for each statement execute function mirror.find_breaches();

create function mirror.doubt_refutation() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (
    select from mirror.proved p
    where p.source_id = new.source_id and p.until > new.version and p.since <= new.version
  ) then
    perform mirror.ask_about_claim(new.source_id, new.reference, new.version);
  end if;
  return null;
end
$$;
comment on function mirror.doubt_refutation is 'An event that a read had refuted says that a list was further behind than any is taken to be: a new read tells.';
create trigger refuted_events after insert on mirror.history for each row
  when (new.verdict = 'refuted' and new.via = 'webhook') execute function mirror.doubt_refutation();
