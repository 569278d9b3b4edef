-- What the leader measures about a provider: how it answers, and how late changes appear in its list.

create table mirror.provider_behaviour (
  source_id   text not null references mirror.sources,
  aspect       text not null,
  value       text not null,
  measured_at timestamptz not null default clock_timestamp(),
  previous    text,
  changed_at  timestamptz,
  primary key (source_id, aspect)
);
comment on table  mirror.provider_behaviour             is 'Measured behaviour of a source''s provider where the spec leaves it open.';
comment on column mirror.provider_behaviour.aspect       is 'sort, precision, page, clock or rate.';
comment on column mirror.provider_behaviour.value       is 'What was measured, in words.';
comment on column mirror.provider_behaviour.measured_at is 'When the value was last confirmed.';
comment on column mirror.provider_behaviour.previous    is 'The previous value; null: it never changed.';
comment on column mirror.provider_behaviour.changed_at  is 'When a change of the value was found; null: never.';
comment on column mirror.provider_behaviour.source_id is 'The source; references sources.';

create table mirror.arrivals (
  source_id      text not null references mirror.sources,
  hour           timestamptz not null,
  missed_seconds integer not null,
  seen_seconds   integer not null,
  changes        bigint not null,
  primary key (source_id, hour, missed_seconds, seen_seconds)
);
comment on table  mirror.arrivals                is 'How late changes appear in the provider''s list, counted by the hour in which they were seen. Settle time and overlap are tuned from the last week.';
comment on column mirror.arrivals.missed_seconds is 'Upper bound of the change''s age when a read of its window did not show it; 0: no read missed it.';
comment on column mirror.arrivals.seen_seconds   is 'Upper bound of the change''s age when a read first showed it.';
comment on column mirror.arrivals.changes is 'How many changes were this old when a read first showed them.';
comment on column mirror.arrivals.hour is 'The hour in which they were seen.';
comment on column mirror.arrivals.source_id is 'The source; references sources.';

create table mirror.provider_requests (
  source_id text not null references mirror.sources,
  minute    timestamptz not null,
  policy    text not null,
  purpose   text not null,
  requests  bigint not null,
  refused   bigint not null default 0,
  primary key (source_id, minute, policy, purpose)
);
comment on table  mirror.provider_requests          is 'Requests sent to the provider, from all processes, by the minute in which they were recorded; after two days by the hour. Kept for 31 days.';
comment on column mirror.provider_requests.policy   is 'The narrowest rate policy that the request counted against; every one counts against sustained as well.';
comment on column mirror.provider_requests.purpose  is 'poll, refetch, backfill, verify or write.';
comment on column mirror.provider_requests.source_id is 'Source that they were sent for.';
comment on column mirror.provider_requests.minute    is 'Minute in which they were recorded, by the database''s clock; after two days the hour.';
comment on column mirror.provider_requests.requests  is 'How many were sent.';
comment on column mirror.provider_requests.refused   is 'How many the provider answered with 429, because the rate limit was reached.';
create index provider_requests_by_time on mirror.provider_requests (minute);
