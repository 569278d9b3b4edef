-- What proves the mirror complete, and what webhooks lost.

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
  missing      bigint not null default 0,
  stale        bigint not null default 0,
  contradicted bigint not null default 0,
  differing    bigint not null default 0,
  extra        bigint not null default 0,
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
comment on column mirror.period_requests.request_id   is 'Number by which a person watches or cancels it.';
comment on column mirror.period_requests.source_id    is 'The source to read.';
comment on column mirror.period_requests.kind         is 'backfill or verification.';
comment on column mirror.period_requests.since        is 'Start of the period, inclusive, nanoseconds since 1970.';
comment on column mirror.period_requests.until        is 'End of the period, exclusive, nanoseconds since 1970. Lowered at the start to what can be proved then.';
comment on column mirror.period_requests.nightly      is 'True when the poller itself requested it.';
comment on column mirror.period_requests.state        is 'requested, running, done, failed or cancelled.';
comment on column mirror.period_requests.read_down_to is 'Everything from here to the end of the period was read; nanoseconds since 1970.';
comment on column mirror.period_requests.unproved     is 'Windows in which orders may be missing, because orders that share a timestamp came in a different sequence each time.';
comment on column mirror.period_requests.requests     is 'Requests to the provider so far.';
comment on column mirror.period_requests.orders       is 'Orders, or states of orders, that they showed.';
comment on column mirror.period_requests.missing      is 'Orders that the mirror did not have.';
comment on column mirror.period_requests.stale        is 'Orders of which the mirror had an older state.';
comment on column mirror.period_requests.contradicted is 'Orders of which the mirror had a state with a later updatedAt that the provider does not show.';
comment on column mirror.period_requests.differing    is 'Orders with the same updatedAt but different content.';
comment on column mirror.period_requests.extra        is 'Orders that the provider does not have: kept, marked as gone, and no longer served.';
comment on column mirror.period_requests.unreadable   is 'Orders of which no read has shown yet whether they differ: the read failed or was too early to refute what the mirror has, or there were too many to read one by one.';
comment on column mirror.period_requests.examples     is 'References of the first orders found to differ.';
comment on column mirror.period_requests.failures     is 'Failures in a row.';
comment on column mirror.period_requests.last_error   is 'The last failure, in one sentence.';
comment on column mirror.period_requests.requested_at is 'When it was requested.';
comment on column mirror.period_requests.started_at   is 'When a poller began it; null before.';
comment on column mirror.period_requests.ended_at     is 'When it was done, failed or cancelled; null before.';
create index period_requests_open on mirror.period_requests (source_id, kind, request_id) where state in ('requested', 'running');
create index period_requests_nightly on mirror.period_requests (source_id, requested_at) where nightly;
