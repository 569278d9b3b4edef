-- Requests to the provider.

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
