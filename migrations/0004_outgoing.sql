-- Webhooks to the business's own systems, made from the change feed.

create table mirror.outgoing_endpoints (
  endpoint_id     text primary key,
  source_ids      text[] not null default '{}',
  definition      text not null default '',
  listed_at       timestamptz not null default clock_timestamp(),
  disputed_at     timestamptz,
  position        bigint not null default 0,
  paused_at       timestamptz,
  resumed_at      timestamptz,
  failures_in_row integer not null default 0,
  sends_from      timestamptz not null default '-infinity',
  created_at      timestamptz not null default clock_timestamp()
);
comment on table  mirror.outgoing_endpoints             is 'The endpoints for changes. Lists of the processes add and change them, and only a person removes one; address and secret stay in the lists.';
comment on column mirror.outgoing_endpoints.definition  is 'Digest of the endpoint in the list that is in force. A process with another one neither plans nor sends.';
comment on column mirror.outgoing_endpoints.listed_at   is 'When a running worker last listed it like this.';
comment on column mirror.outgoing_endpoints.disputed_at is 'When a running worker last listed it with another content, while this one was in force.';
comment on column mirror.outgoing_endpoints.resumed_at  is 'When a person last ended a pause: what was not sent during it is late from then on. Null if none did.';
comment on column mirror.outgoing_endpoints.sends_from  is 'For an endpoint with a rate: when the messages that were taken will be spread out.';

create table mirror.outgoing_deliveries (
  delivery_id     uuid primary key default gen_random_uuid(),
  endpoint_id     text not null references mirror.outgoing_endpoints on delete cascade,
  source_id       text not null,
  position        bigint,
  reference       text,
  event_type      text not null,
  state           text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
  attempts        integer not null default 0,
  next_attempt_at timestamptz not null default clock_timestamp(),
  taken_until     timestamptz,
  last_attempt_at timestamptz,
  last_outcome    text,
  last_attempts   jsonb not null default '[]',
  answer          text,
  delivered_at    timestamptz,
  created_at      timestamptz not null default clock_timestamp(),
  unique (endpoint_id, source_id, position)
);
comment on table  mirror.outgoing_deliveries                 is 'One change for one endpoint, or, without a position, a test.';
comment on column mirror.outgoing_deliveries.delivery_id     is 'No number: a restored database would give one again, while an attempt under the former one is still under way.';
comment on column mirror.outgoing_deliveries.state           is 'pending: to be sent. delivered: the endpoint accepted it. dead: given up, and kept so that a person can send it again.';
comment on column mirror.outgoing_deliveries.taken_until     is 'Until then the attempt under way may still end; afterwards its process is gone, and another one sends it.';
comment on column mirror.outgoing_deliveries.last_attempts   is 'The last ten, newest first: at (seconds since 1970), outcome, and ms from the request to the answer or the error.';
comment on column mirror.outgoing_deliveries.answer          is 'The first characters of the last answer, without control characters, secrets, and personal data of the order; null if it was empty.';
create index outgoing_due on mirror.outgoing_deliveries (endpoint_id, next_attempt_at, position) where state = 'pending';
create index outgoing_taken on mirror.outgoing_deliveries (endpoint_id) where taken_until is not null;
create index outgoing_order on mirror.outgoing_deliveries (endpoint_id, source_id, reference, position) where state = 'pending';
create index outgoing_by_endpoint on mirror.outgoing_deliveries (endpoint_id, created_at, delivery_id);
create index outgoing_by_time on mirror.outgoing_deliveries (created_at, delivery_id);
create index outgoing_dead on mirror.outgoing_deliveries (endpoint_id, position) where state = 'dead';
create index outgoing_delivered on mirror.outgoing_deliveries (delivered_at) where state = 'delivered';
create function mirror.under_way(of_endpoint text) returns bigint language plpgsql as $$
begin
  return (select count(*) from mirror.outgoing_deliveries
    where endpoint_id = of_endpoint and state = 'pending' and taken_until > clock_timestamp());
end
$$;
comment on function mirror.under_way is 'The number of deliveries of an endpoint that are under way now. A statement that has waited for the endpoint would itself count those of before its wait.';
-- Web, which strangers can reach, makes due what was not delivered, and sends tests: it can neither end a delivery nor put it
-- off. Only who may add an endpoint does the rest.
create policy read on mirror.outgoing_deliveries for select using (true);
create policy work on mirror.outgoing_deliveries
  using ((select has_table_privilege('mirror.outgoing_endpoints', 'insert')));
create policy make_due on mirror.outgoing_deliveries for update using (state <> 'delivered')
  with check (state = 'pending' and next_attempt_at <= clock_timestamp() and delivered_at is null);
create policy add_test on mirror.outgoing_deliveries for insert with check (event_type = 'test');
create policy remove_test on mirror.outgoing_deliveries for delete using (event_type = 'test');
alter table mirror.outgoing_deliveries enable row level security;
