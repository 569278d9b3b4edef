-- Operation: the audit log and sessions of the ops pages, alerts, calls of both sides, erasure and retention.

create table mirror.calls (
  source_id text not null references mirror.sources,
  kind      text not null,
  minute    timestamptz not null,
  outcome   text not null,
  calls     bigint not null,
  last_at   timestamptz not null,
  primary key (source_id, kind, minute, outcome)
);
comment on table  mirror.calls         is 'Calls of both sides, from all processes, by the minute in which they were recorded: of the webhook address of each source, and requests to the provider. Kept for 31 days. Counts only: nothing of a refused call is stored.';
comment on column mirror.calls.kind    is 'webhook; or of a request to the provider its narrowest rate policy (every request counts against sustained as well).';
comment on column mirror.calls.outcome is 'Of a webhook: accepted: stored, now or before. wrong_signature: signed, but not with the provider''s secret. unsigned: without the header that the scheme signs with. wrong_time: signed too long before or after the web process''s clock; the signature was not examined. not_stored: answered 5xx. no_secret: answered 404, because the source has no webhook secret. other: refused for another reason. Of a request: answered, refused (429) or unanswered.';
create index calls_by_time on mirror.calls (minute);
-- What people do on the ops pages, and who is logged in there.

create table mirror.ops_actions (
  action_id bigint generated always as identity primary key,
  at        timestamptz not null default clock_timestamp(),
  role      text not null check (role in ('operator', 'viewer', 'command')),
  person    text check (length(person) <= 255),
  action    text not null,
  source_id text,
  target    text,
  note      text,
  affected  bigint
);
comment on table  mirror.ops_actions           is 'Everything done on the ops pages, and every command that changed or exported something: the audit log. A row is written before the action or together with it.';
comment on column mirror.ops_actions.role      is 'Role that the person was logged in with; command: at the command line, where everyone who can reach the database may do anything.';
comment on column mirror.ops_actions.person    is 'The person, as named by single sign-on, or the account and machine of a command; null: someone who knows the password of the role.';
comment on column mirror.ops_actions.action    is 'refetch, retry, dismiss, pause, resume, read_gaps, reread, queue, pause_endpoint, resume_endpoint, retry_endpoint, hasten_endpoint, test_endpoint, remove_endpoint, log_in or log_out; of commands also adopt, erase, backfill, verify, export and outgoing.';
comment on column mirror.ops_actions.source_id is 'Source that it concerned; null: every source.';
comment on column mirror.ops_actions.target    is 'What it concerned: an order''s reference, a part of the quarantine, a job of a queue.';
comment on column mirror.ops_actions.affected  is 'How many objects it concerned; null when it was started and its end is not known.';
-- The end of an action is recorded once: a login that may do that cannot change it afterwards.
create policy read on mirror.ops_actions for select using (true);
create policy add on mirror.ops_actions for insert with check (true);
create policy finish on mirror.ops_actions for update using (affected is null) with check (true);
alter table mirror.ops_actions enable row level security;

create table mirror.ops_sessions (
  token_hash   bytea primary key,
  password_mark bytea not null,
  role         text not null check (role in ('operator', 'viewer')),
  created_at   timestamptz not null default clock_timestamp(),
  last_seen_at timestamptz not null default clock_timestamp(),
  expires_at   timestamptz not null
);
comment on table  mirror.ops_sessions              is 'Sessions of the ops pages. A row is deleted at logout, or at the first login after its end.';
comment on column mirror.ops_sessions.token_hash   is 'HMAC of the cookie''s value, keyed with the passwords. The hash alone gives no access, and a new password ends every session.';
comment on column mirror.ops_sessions.password_mark is 'Hash of the passwords under which it began. Sessions of other passwords are deleted.';
create index ops_sessions_by_end on mirror.ops_sessions (expires_at);
-- Conditions that people are notified of, without a monitoring system.

create table mirror.alerts (
  name      text not null,
  -- No foreign key: it may name an endpoint or a queue as well.
  subject   text not null,
  since     timestamptz not null,
  ended_at  timestamptz,
  notified_at     timestamptz,
  end_notified_at timestamptz,
  primary key (name, subject)
);
comment on table  mirror.alerts          is 'Conditions that hold, and the last occurrence of those that ended within a day. Kept here so that a restart repeats no notification, and pages show what is over.';
comment on column mirror.alerts.subject  is 'Source, endpoint or queue that it is about; empty for a condition that exists only once.';
comment on column mirror.alerts.ended_at is 'When it ceased to hold; the row is deleted a day after that was notified.';

-- Erasure: the mirror keeps an order's reference, status, times, fleet and branch, and nothing else of it comes back.

create table mirror.erasures (
  source_id  text not null references mirror.sources,
  reference  text not null,
  erased_at  timestamptz not null default clock_timestamp(),
  primary key (source_id, reference)
);
comment on table  mirror.erasures           is 'Orders whose personal data was erased. Everything that arrives about them is redacted before it is written, so rows must stay forever.';

create function mirror.plain_value(value json) returns json
language sql immutable parallel safe
return case when json_typeof(value) not in ('object', 'array') then value end;
comment on function mirror.plain_value is 'The value, or null if it has parts: in the place of a text they may say anything.';

create function mirror.time_value(value json) returns json
language sql stable
return case when mirror.read_time(value #>> '{}') is not null then value end;
comment on function mirror.time_value is 'The value, or null if it is no date-time: in the place of one, any text may stand.';

create function mirror.redact_order(raw json, reference text, status text) returns json
language sql stable
return (
  -- Fields are named one by one: one that the provider adds later must not pass. Of unreadable input, nothing is kept.
  select json_build_object(
    'reference', reference,
    'externalOrderId', null,
    'status', status,
    'livemode', mirror.plain_value(o -> 'livemode'),
    'fleet', json_build_object('name', mirror.plain_value(o -> 'fleet' -> 'name')),
    'schedule', json_build_object(
      'mode', mirror.plain_value(o -> 'schedule' -> 'mode'),
      'resolved', json_build_object(
        'pickupTime', mirror.time_value(o -> 'schedule' -> 'resolved' -> 'pickupTime'),
        'deliveryTime', mirror.time_value(o -> 'schedule' -> 'resolved' -> 'deliveryTime'),
        'basis', mirror.plain_value(o -> 'schedule' -> 'resolved' -> 'basis'))),
    'pickupTime', mirror.time_value(o -> 'pickupTime'),
    'deliveryTime', mirror.time_value(o -> 'deliveryTime'),
    'realPickupTime', mirror.time_value(o -> 'realPickupTime'),
    'realDeliveryTime', mirror.time_value(o -> 'realDeliveryTime'),
    'updatedAt', mirror.time_value(o -> 'updatedAt'),
    'branch', json_build_object('id', mirror.plain_value(o -> 'branch' -> 'id'), 'reference', mirror.plain_value(o -> 'branch' -> 'reference')),
    'erased', true)
  from (select mirror.readable_json(raw) as o) readable
);
comment on function mirror.redact_order is 'An order object without personal data: reference, status, times, fleet and branch stay. Applying it twice gives the same result.';
-- How far each walk has examined old rows, so that not every pass examines them again.

create table mirror.retention_walks (
  walk     text primary key,
  position bigint not null,
  begun_at timestamptz not null default clock_timestamp()
);
comment on table  mirror.retention_walks          is 'The progress of each walk of retention through a table. A walk reads the rows in the order in which they were written, and a day later it begins again: what had to stay may go then.';
