-- Webhooks to the business's own systems, made from the change feed.

create table mirror.outgoing_endpoints (
  endpoint_id     text primary key,
  source_ids      text[] not null default '{}',
  position        bigint not null default 0,
  paused_at       timestamptz,
  failures_in_row integer not null default 0,
  created_at      timestamptz not null default clock_timestamp()
);
comment on table  mirror.outgoing_endpoints                 is 'The configured endpoints for changes; address and secret stay in the configuration.';

create table mirror.outgoing_deliveries (
  delivery_id     bigint generated always as identity primary key,
  endpoint_id     text not null references mirror.outgoing_endpoints on delete cascade,
  source_id       text not null,
  position        bigint not null,
  reference       text not null,
  event_type      text not null,
  state           text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
  attempts        integer not null default 0,
  enqueued_at     timestamptz,
  last_attempt_at timestamptz,
  last_outcome    text,
  duration_ms     integer,
  answer          text,
  delivered_at    timestamptz,
  created_at      timestamptz not null default clock_timestamp(),
  unique (endpoint_id, source_id, position)
);
comment on table  mirror.outgoing_deliveries                 is 'One change for one endpoint. Each has a job in the endpoint''s queue until it ends.';
comment on column mirror.outgoing_deliveries.state           is 'pending: to be sent. delivered: the endpoint accepted it. dead: given up, and kept so that a person can send it again.';
comment on column mirror.outgoing_deliveries.enqueued_at     is 'When its endpoint''s queue got it, by the database''s clock; null: it is to get it.';
comment on column mirror.outgoing_deliveries.duration_ms     is 'Milliseconds of the last attempt, from the request to the answer or the error, by the sender''s clock.';
comment on column mirror.outgoing_deliveries.answer          is 'The first characters of the last answer, without control characters, secrets, and what the message said about the order; null if it was empty.';
create index outgoing_to_enqueue on mirror.outgoing_deliveries (endpoint_id, delivery_id) where state = 'pending' and enqueued_at is null;
create index outgoing_order on mirror.outgoing_deliveries (endpoint_id, source_id, reference, position) where state = 'pending';
create index outgoing_by_endpoint on mirror.outgoing_deliveries (endpoint_id, delivery_id);
create index outgoing_dead on mirror.outgoing_deliveries (endpoint_id, position) where state = 'dead';
create index outgoing_delivered on mirror.outgoing_deliveries (delivered_at) where state = 'delivered';
