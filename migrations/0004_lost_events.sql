-- Changes that webhooks should have announced but a read found first.

create table mirror.webhook_hours (
  source_id     text not null references mirror.sources,
  hour          timestamptz not null,
  status        text not null,
  outcome       text not null check (outcome in ('announced', 'late', 'lost')),
  up_to_seconds integer not null,
  changes       bigint not null,
  waited        bigint not null,
  waited_max_seconds double precision not null,
  primary key (source_id, hour, status, outcome, up_to_seconds)
);
comment on table  mirror.webhook_hours               is 'Changes of status that webhooks should have announced, counted by the hour in which the mirror learned of them: computed from the history and the inbox, and kept because these are not kept for ever.';
comment on column mirror.webhook_hours.source_id     is 'The source; references sources.';
comment on column mirror.webhook_hours.hour          is 'The hour in which the mirror learned of the changes; -infinity: all that are older than 30 days.';
comment on column mirror.webhook_hours.status        is 'Status after the change.';
comment on column mirror.webhook_hours.outcome       is 'announced: its event was received before a read found it. late: after that. lost: no event was received within event_grace after that, of a status that events announce.';
comment on column mirror.webhook_hours.up_to_seconds is 'Longest delay counted here, in seconds from updatedAt to the receipt of the event; 2147483647: any longer one; 0 for lost.';
comment on column mirror.webhook_hours.changes       is 'How many changes.';
comment on column mirror.webhook_hours.waited        is 'How many of their events we decided more than a minute after we had received them.';
comment on column mirror.webhook_hours.waited_max_seconds is 'The longest of these delays of ours.';

create index found_by_reads on mirror.history (source_id, seen_at)
  where via in ('poll', 'refetch', 'verify') and verdict = 'applied';

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
      where w.source_id = h.source_id and w.status = h.status and w.outcome <> 'lost') then 'lost'
    else 'not_announced'
  end as state,
  e.received_at as announced_at, e.event_id
from mirror.history h
join mirror.sources s using (source_id)
left join lateral (
  select coalesce(i.received_at, a.seen_at) as received_at, a.event_id
  from mirror.history a left join mirror.inbox i on i.seq = a.inbox_seq and i.source_id = a.source_id
  where a.source_id = h.source_id and a.reference = h.reference and a.version <= h.version and a.status = h.status
    and a.via = 'webhook'
  order by 1 limit 1
) e on true
where h.via in ('poll', 'refetch', 'verify') and h.verdict = 'applied'
  and h.previous_status is not null and h.status is distinct from h.previous_status and h.status <> 'created'
  and h.version > mirror.nanos_of(s.created_at)
  and (e.received_at is null or e.received_at > h.seen_at);
comment on view   mirror.unannounced_changes              is 'Changes of status that a read found before an event of them was received. The first state of an order does not count, nor what is older than the source or what a backfill or a write brought.';
comment on column mirror.unannounced_changes.version      is 'updatedAt of the change, nanoseconds since 1970.';
comment on column mirror.unannounced_changes.via          is 'The read that found it.';
comment on column mirror.unannounced_changes.found_at     is 'When the read''s change was applied, by the database''s clock.';
comment on column mirror.unannounced_changes.state        is 'waiting: its event may still come, or waits for a decision. late: it came after the read. lost: it did not come within event_grace. not_announced: no event was ever seen for that status.';
comment on column mirror.unannounced_changes.announced_at is 'When its event came after all.';
comment on column mirror.unannounced_changes.event_id     is 'The event that announced the change late; null while none has.';
comment on column mirror.unannounced_changes.reference    is 'The order''s reference.';
comment on column mirror.unannounced_changes.source_id    is 'The source; references sources.';
comment on column mirror.unannounced_changes.status       is 'Status after the change.';

create table mirror.webhook_calls (
  source_id text not null references mirror.sources,
  minute    timestamptz not null,
  outcome   text not null check (outcome in ('accepted', 'wrong_signature', 'wrong_time', 'not_stored', 'no_secret', 'other')),
  calls     bigint not null,
  slow      bigint not null,
  last_at   timestamptz not null,
  primary key (source_id, minute, outcome)
);
comment on table  mirror.webhook_calls           is 'Calls to the webhook address of each source, from all processes, by the minute in which they were recorded. Kept for two days. Counts only: nothing of a refused call is stored.';
comment on column mirror.webhook_calls.source_id is 'Source whose address was called.';
comment on column mirror.webhook_calls.minute    is 'Minute in which they were recorded, by the database''s clock.';
comment on column mirror.webhook_calls.outcome   is 'accepted: stored, now or before. wrong_signature: signed, but not with the provider''s secret. wrong_time: signed too long before or after the web process''s clock; the signature was not examined. not_stored: answered 5xx. no_secret: answered 404, because the source has no webhook secret. other: refused for another reason.';
comment on column mirror.webhook_calls.calls     is 'How many calls.';
comment on column mirror.webhook_calls.slow      is 'How many of those were answered more than a second after they arrived.';
comment on column mirror.webhook_calls.last_at   is 'When the last of them was recorded.';
