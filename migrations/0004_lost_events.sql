-- Changes that webhooks should have announced but a read found first.

create table mirror.announced_statuses (
  source_id  text not null references mirror.sources,
  status     text not null,
  event_type text not null,
  events     bigint not null,
  first_at   timestamptz not null,
  last_at    timestamptz not null,
  primary key (source_id, status)
);
comment on table  mirror.announced_statuses            is 'The statuses that the provider announces by event: learned from received events, because its documentation does not list them all.';
comment on column mirror.announced_statuses.event_type is 'Type of the last event that brought the status.';
comment on column mirror.announced_statuses.events     is 'How many changes such events announced, before a read found them or late.';
comment on column mirror.announced_statuses.first_at is 'When the first event of this status came, by the database''s clock.';
comment on column mirror.announced_statuses.last_at is 'When the last event of this status came, by the database''s clock.';
comment on column mirror.announced_statuses.source_id is 'The source; references sources.';
comment on column mirror.announced_statuses.status is 'A status that events of this source have announced.';

create table mirror.unannounced_changes (
  source_id    text not null references mirror.sources,
  reference    text not null,
  status       text not null,
  version      bigint not null,
  via          text not null,
  found_at     timestamptz not null,
  state        text not null default 'waiting' check (state in ('waiting', 'late', 'lost', 'not_announced')),
  announced_at timestamptz,
  event_id     text,
  primary key (source_id, reference, version)
);
comment on table  mirror.unannounced_changes              is 'Changes of status that a read found before any event did; each is kept for 30 days.';
comment on column mirror.unannounced_changes.version      is 'updatedAt of the change, nanoseconds since 1970.';
comment on column mirror.unannounced_changes.via          is 'The read that found it.';
comment on column mirror.unannounced_changes.found_at     is 'When the read''s change was applied, by the database''s clock.';
comment on column mirror.unannounced_changes.state        is 'waiting: its event may still come. late: it came after the read. lost: it did not come within the grace period. not_announced: no event was ever seen for that status.';
comment on column mirror.unannounced_changes.announced_at is 'When its event came after all.';
comment on column mirror.unannounced_changes.event_id is 'The event that announced the change late; null while none has.';
comment on column mirror.unannounced_changes.reference is 'The order''s reference.';
comment on column mirror.unannounced_changes.source_id is 'The source; references sources.';
comment on column mirror.unannounced_changes.status is 'Status after the change.';
create index unannounced_undecided on mirror.unannounced_changes (source_id, found_at) where state in ('waiting', 'lost');
create index unannounced_by_time on mirror.unannounced_changes (source_id, found_at);

create table mirror.lost_events_removed (
  source_id text primary key references mirror.sources,
  lost      bigint not null
);
comment on table  mirror.lost_events_removed      is 'Lost events whose rows in unannounced_changes were deleted because of their age, so that the total count stays right.';
comment on column mirror.lost_events_removed.lost is 'How many of the removed rows were in the state lost.';
comment on column mirror.lost_events_removed.source_id is 'The source; references sources.';

create table mirror.lost_event_cursor (
  source_id text primary key references mirror.sources,
  position  bigint not null
);
comment on table mirror.lost_event_cursor is 'The position up to which the change feed was read for lost events.';
comment on column mirror.lost_event_cursor.position is 'The last change of the feed that was compared with the events.';
comment on column mirror.lost_event_cursor.source_id is 'The source; references sources.';

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
