-- The mirror's own tables. People and reporting tools read the schema `reporting`, never these.
-- Versions and cursors are bigint nanoseconds since 1970 (UTC); timestamptz columns are for people.
-- Every unique key of what a source brings includes the source; the number comes first where rows are looked up by it.

create schema mirror;
comment on schema mirror is 'Tables of order-mirror. Private to the program; read the schema reporting instead.';

-- Instants are the same when they differ by less than the last digit of one of them: it was cut or rounded. Zeros at the
-- end are no digits: a column of whole seconds is often shown with .000. Not strict: only so a call becomes part of the
-- statement. As numeric, because instants of other centuries may differ by more than a bigint.
create function mirror.last_digit(instant bigint) returns bigint
language sql immutable parallel safe
return (10 ^ least(length(instant::text) - length(rtrim(instant::text, '0')), 9))::bigint;
comment on function mirror.last_digit is 'What the last digit of an instant stands for, in nanoseconds: at most a second.';

create function mirror.same_instant(one bigint, other bigint) returns boolean
language sql immutable parallel safe
return one = other or abs(one::numeric - other) < greatest(mirror.last_digit(one), mirror.last_digit(other));
comment on function mirror.same_instant is 'Whether two instants are the same, of which one may have been cut or rounded to its digits.';

create table mirror.sources (
  source_id  text primary key,
  mode       text not null check (mode in ('live', 'test')),
  base_url   text not null,
  created_at timestamptz not null default now(),
  provider   text,
  branch_ids text[] not null default '{}',
  refused_branches text,
  branches_read_at timestamptz,
  paused_at  timestamptz,
  resumed_at timestamptz,
  event_grace interval not null default '5 minutes',
  removed_position bigint not null default 0,
  receives_events boolean
);
comment on table  mirror.sources            is 'One row per source: an organization of the provider in one mode. Everything stored is keyed by it.';
comment on column mirror.sources.created_at is 'When the source was configured, or went to its present provider: of earlier changes, no event was to come.';
comment on column mirror.sources.provider   is 'Identity of the provider that the orders come from: its normalized address, or a mark for the sandbox of the demo. Null until a process has started with the source. A different provider is refused.';
comment on column mirror.sources.branch_ids is 'Ids of all branches that the provider ever listed for the source. They identify the organization: another organization has none of them.';
comment on column mirror.sources.branches_read_at is 'The list of branches is as the provider had it at this time, by the database''s clock: before it was requested. Null until it was first read.';
comment on column mirror.sources.refused_branches is 'The branches, in words, that the configured key lists when it belongs to another organization; null while the key belongs to the organization of the source.';
comment on column mirror.sources.event_grace is 'How long an event may arrive after the read that found its change before it counts as lost.';
comment on column mirror.sources.removed_position is 'The last position in the change feed that retention removed: a reader that has not read up to it must start again.';
comment on column mirror.sources.receives_events is 'Whether web has a webhook secret for the source; false: it is polled only. Null until a web process has started with it.';
comment on column mirror.sources.paused_at is 'When a person paused polling of the source; null while it is polled. Events are received in either case.';
comment on column mirror.sources.resumed_at is 'When a person last ended a pause: what did not happen during it counts from then. Null if none did.';

create table mirror.inbox (
  -- Columns of fixed width come first, the widest before the others, so that rows have no gaps.
  seq          bigint generated always as identity,
  received_at  timestamptz not null default clock_timestamp(),
  secret_index smallint not null,
  -- No foreign key: it would lock the row of the source for every event, a fifth of the cost of storing one.
  source_id    text not null,
  event_id     text not null,
  body_hash    bytea not null,
  body         bytea not null,
  headers      json,
  primary key (seq, source_id),
  unique (source_id, event_id, body_hash)
);
comment on table  mirror.inbox              is 'Every authenticated event, committed before it is acknowledged. The history records the decision on each. Only erasure changes rows, and only retention deletes them.';
comment on column mirror.inbox.seq          is 'Position in the inbox; the only thing that queue jobs carry.';
comment on column mirror.inbox.event_id     is 'The envelope''s id, or sha256:<hex> of the body when the envelope has no id that can be a key.';
comment on column mirror.inbox.body_hash    is 'SHA-256 of the body: an event with a known id but different content is kept, not dropped.';
comment on column mirror.inbox.headers      is 'Content-type, user-agent, and the headers that the source''s scheme reads besides the signature. Null once its order is erased.';
comment on column mirror.inbox.secret_index is 'Which of the source''s webhook secrets matched, from 0: shows when an old one can be removed.';

create table mirror.pending (
  seq         bigint not null,
  source_id   text not null,
  received_at timestamptz not null default clock_timestamp(),
  primary key (seq, source_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
comment on table mirror.pending is 'Inbox rows that await a decision. Inserted with the inbox row, deleted with its decision: these rows are the backlog, regardless of what the queue holds.';

create sequence mirror.history_id as bigint;

-- Domains, because Postgres keeps what they check. A check of a table is read from its text for each statement that
-- writes a row: two of them were a twentieth of the work of an event applied alone.
create domain mirror.via as text
  check (value in ('webhook', 'poll', 'backfill', 'refetch', 'verify', 'write'));
comment on domain mirror.via is 'How an observation was made.';
create domain mirror.verdict as text
  check (value in
    ('applied', 'corrected', 'confirmed', 'stale', 'refuted', 'duplicate', 'ignored', 'quarantined', 'gone'));
comment on domain mirror.verdict is 'The decision on an observation.';
create domain mirror.change_verdict as text check (value in ('applied', 'corrected', 'gone'));
comment on domain mirror.change_verdict is 'A decision that changed an order.';

create table mirror.history (
  history_id   bigint not null default nextval('mirror.history_id'),
  inbox_seq    bigint,
  horizon      bigint,
  version      bigint,
  observed_at  bigint,
  seen_at      timestamptz not null default clock_timestamp(),
  raw_start    integer,
  raw_length   integer,
  rank         smallint,
  settled      boolean,
  conflict     boolean not null default false,
  refuted      boolean not null default false,
  source_id    text not null,
  reference    text,
  via          mirror.via not null,
  verdict      mirror.verdict not null,
  reason       text,
  event_id     text,
  event_type   text,
  hash         bytea,
  status       text,
  previous_status text,
  raw          json,
  primary key (history_id, source_id)
);
comment on table  mirror.history             is 'Every observation with its decision: the answer to "why does the mirror show this". A row changes only when a read refutes it or its order is there after all, when its event is removed, and by erasure; only retention deletes it.';
comment on column mirror.history.horizon     is 'The read showed every change up to this instant; nanoseconds since 1970 by the provider''s clock. Null for a claim: an event, or a read of a version beyond its own horizon.';
comment on column mirror.history.settled     is 'True when, at the time of the read, no further change could have this version.';
comment on column mirror.history.observed_at is 'When the read was requested or the event created, by the provider''s clock; nanoseconds since 1970.';
comment on column mirror.history.rank        is 'Place of the status in the life of an order; decides between states with the same timestamp.';
comment on column mirror.history.previous_status is 'Previous status of the order; null for a new order, and unless the verdict is applied, corrected or gone.';
comment on column mirror.history.raw         is 'The snapshot exactly as received; null for a duplicate or a confirmation, and while the body of the event has it: see snapshots.';
comment on column mirror.history.raw_start   is 'Where the snapshot begins in the event''s body, in bytes from 1; null when it is in raw.';

-- What an event brought is stored once: its snapshot stays in its body, until that is removed.
create view mirror.snapshots as
select h.history_id, h.source_id, h.reference, h.version, h.hash, coalesce(h.raw, (
  select convert_from(substring(i.body from h.raw_start for h.raw_length), 'UTF8')::json from mirror.inbox i
  where h.raw_start is not null and i.seq = h.inbox_seq and i.source_id = h.source_id)) as raw
from mirror.history h;
comment on view   mirror.snapshots            is 'What each observation showed, read from the history or from the body of its event.';

create function mirror.keep_snapshots() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
  update mirror.history h
  set raw = convert_from(substring(removed.body from h.raw_start for h.raw_length), 'UTF8')::json,
    raw_start = null, raw_length = null
  from removed
  where h.inbox_seq = removed.seq and h.source_id = removed.source_id and h.raw_start is not null;
  return null;
end
$$;
comment on function mirror.keep_snapshots is 'Moves the snapshots of removed events to the history.';
create trigger inbox_keeps_snapshots after delete on mirror.inbox referencing old table as removed
  for each statement execute function mirror.keep_snapshots();

create index history_by_order on mirror.history (source_id, reference, version);
create index history_by_inbox on mirror.history (inbox_seq) where inbox_seq is not null;
create index refuted_claims on mirror.history (source_id, seen_at)
  where via = 'webhook' and (refuted or verdict = 'refuted');

create table mirror.orders (
  -- What rarely changes comes first, and the snapshot last: an update on the same page logs only what is between the
  -- first and the last difference. So pages keep some room for new versions.
  source_id               text not null,
  reference               text not null,
  first_seen_via          text not null,
  first_seen_at           timestamptz not null default clock_timestamp(),
  pickup_time             timestamptz,
  delivery_time           timestamptz,
  resolved_pickup_time    timestamptz,
  resolved_delivery_time  timestamptz,
  livemode                boolean,
  external_order_id       text,
  fleet_name              text,
  branch_id               text,
  branch_reference        text,
  schedule_mode           text,
  resolved_basis          text,
  gone_at                 timestamptz,
  real_pickup_time        timestamptz,
  real_delivery_time      timestamptz,
  horizon                 bigint check (horizon >= version or gone_at is not null),
  version                 bigint not null,
  observed_at             bigint not null,
  updated_at              timestamptz not null,
  changed_at              timestamptz not null default clock_timestamp(),
  history_id              bigint not null,
  previous_history_id     bigint,
  previous_version        bigint,
  revision                integer not null default 1,
  rank                    smallint not null,
  settled                 boolean not null,
  hash                    bytea not null,
  status                  text not null,
  previous_status         text,
  raw                     json not null,
  primary key (source_id, reference)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on table  mirror.orders                     is 'The latest known state of every order. Only three things write here: applying observations, marking orders as gone, and erasure. The order key only grows.';
comment on column mirror.orders.horizon             is 'A read showed this content, which includes every change up to this instant; nanoseconds since 1970 by the provider''s clock, never below version unless the order is gone. Null while the content is a claim: only an event, or a read of a version beyond its own horizon, has shown it.';
comment on column mirror.orders.version             is 'updatedAt, nanoseconds since 1970. The order key begins with the horizon, or for a claim the version.';
comment on column mirror.orders.settled             is 'True once a read has shown this version at a time when no further change could have it.';
comment on column mirror.orders.updated_at          is 'updatedAt to the microsecond, for people and filters; comparisons use version.';
comment on column mirror.orders.raw                 is 'The order object exactly as the provider sent it, including unknown fields and the order of fields.';
comment on column mirror.orders.gone_at             is 'When a second read, a margin after the first, found that the provider has no such order; null while it has one. A gone order is kept but not served, and read again for seven days.';
create index orders_by_version  on mirror.orders (source_id, version, reference);
create index orders_by_pickup   on mirror.orders (source_id, pickup_time, reference);
create index orders_by_delivery on mirror.orders (source_id, delivery_time, reference);
create index orders_gone        on mirror.orders (source_id, gone_at) where gone_at is not null;

create function mirror.refuse_older_order() returns trigger language plpgsql as $$
declare
  -- As in the guard of src/apply/applyBatch.sql, under which guard.test.ts proves both: claims reach no further than a
  -- minute beyond their observation, and a horizon ahead of the present counts as none. Without that minute here, because
  -- the guard has looked at the clock before.
  trusted constant bigint := 60000000000;
  known bigint := case when old.horizon <= mirror.nanos_of(clock_timestamp()) then old.horizon end;
begin
  if (coalesce(new.horizon, case when new.version > new.observed_at + trusted then new.observed_at else new.version end),
      new.horizon is not null, new.gone_at is null, new.version, new.settled, new.observed_at, new.rank, new.hash)
    < (coalesce(known, case when old.version > old.observed_at + trusted then old.observed_at else old.version end),
      known is not null, old.gone_at is null, old.version, old.settled, old.observed_at, old.rank, old.hash) then
    raise exception 'order %/% may not go back from version % to % without a later read', old.source_id, old.reference, old.version, new.version
      using errcode = 'integrity_constraint_violation';
  end if;
  return new;
end
$$;
comment on function mirror.refuse_older_order is 'Invariant: per order, the stored key only grows.';
-- The conditions of triggers are short: each is read from its text for each statement that updates a row.
create trigger orders_only_grow before update on mirror.orders for each row
  when (coalesce(new.horizon, new.version) <= coalesce(old.horizon, old.version))
  execute function mirror.refuse_older_order();

create function mirror.mark_refuted() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
  if new.version >= old.version and old.gone_at is not null then
    -- There after all: only its absence contradicted its last state.
    update mirror.history set refuted = false
    where source_id = new.source_id and reference = new.reference and version = old.version and refuted
      and new.gone_at is null;
    return null;
  end if;
  if new.horizon is null then
    return null;
  end if;
  update mirror.history set refuted = true
  where source_id = new.source_id and reference = new.reference
    and (version > new.version or (new.gone_at is not null and not old.settled and version = new.version))
    and version <= new.horizon and verdict in ('applied', 'corrected', 'stale');
  return null;
end
$$;
comment on function mirror.mark_refuted is 'Marks the states of an order that a read contradicted: those younger than the state it showed, up to its horizon, and, when it did not find the order, the last state unless that was settled, until the order is there again.';
create trigger orders_mark_refuted after update on mirror.orders for each row
  when (new.version < old.version or new.gone_at is not null or old.gone_at is not null)
  execute function mirror.mark_refuted();

create table mirror.quarantine (
  quarantine_id bigint generated always as identity,
  source_id     text not null,
  via           text not null,
  inbox_seq     bigint,
  reference     text,
  reason        text not null,
  detail        text,
  version       bigint,
  raw           bytea,
  raw_hash      bytea generated always as (sha256(raw)) stored,
  state         text not null default 'open' check (state in ('open', 'dismissed')),
  quarantined_at timestamptz not null default clock_timestamp(),
  dismissed_at   timestamptz,
  dismissed_because text,
  primary key (quarantine_id, source_id),
  unique (inbox_seq, source_id)
);
comment on table  mirror.quarantine        is 'Authenticated input that could not be applied. It is kept in full, shown on the ops pages, and can be replayed.';
comment on column mirror.quarantine.reason is 'One of wrong_mode, not_json, not_an_envelope, unreadable_order, unreadable_created, dated_ahead, refused_by_database, unreadable_singly.';
comment on column mirror.quarantine.raw_hash is 'SHA-256 of raw, so that input which every poll shows again is quarantined only once.';
-- For the list by reason, and the exact count of what a retry would take, without reading the documents.
create index quarantine_open_by_reason on mirror.quarantine (reason, source_id, quarantine_id) where state = 'open';
create index quarantine_dismissed on mirror.quarantine (quarantine_id) where state = 'dismissed';
create index quarantine_by_reference on mirror.quarantine (source_id, reference) where reference is not null;
create unique index quarantine_once on mirror.quarantine (source_id, raw_hash) where inbox_seq is null;
create index quarantine_excepted on mirror.quarantine (source_id) where inbox_seq is null;
create index quarantine_open on mirror.quarantine (source_id, quarantined_at) where state = 'open';

create table mirror.refetches (
  source_id       text not null,
  reference       text not null,
  reason          text not null,
  requested_at    timestamptz not null default clock_timestamp(),
  attempts        integer not null default 0,
  failures        integer not null default 0,
  last_error      text,
  next_attempt_at timestamptz not null default clock_timestamp(),
  claim_version   bigint,
  unconfirmed     boolean not null default false,
  replayed        boolean not null default false,
  omitted_at      timestamptz,
  missed_at       bigint,
  request_id      bigint,
  primary key (source_id, reference)
);
comment on table  mirror.refetches                 is 'Orders that the poller should read again one by one; a row is deleted after the read.';
comment on column mirror.refetches.requested_at    is 'When the read was last requested, by the database''s clock; identifies the request.';
comment on column mirror.refetches.last_error      is 'What the last failure was, with the HTTP status and without personal data; null when the last read did not fail.';
comment on column mirror.refetches.next_attempt_at is 'The order is not read before this instant of the database''s clock. Each failure doubles the wait.';
comment on column mirror.refetches.claim_version   is 'updatedAt, in nanoseconds since 1970, of an event within a window that was proved without it: the read shows whether the event or the proof was wrong. Null otherwise.';
comment on column mirror.refetches.replayed        is 'True when the order could not be read, and its row in quarantine was replayed: no read has shown it since.';
comment on column mirror.refetches.omitted_at      is 'When a list first omitted the order in a window where the mirror has it, by the database''s clock. The row stays until a single read has shown the order a margin after that, and a proof knows of it.';
comment on column mirror.refetches.missed_at       is 'When the first single read was requested that found no such order, nanoseconds since 1970 by the provider''s clock; null if the last read found it. A second one, a margin later, decides that the order is gone.';
create index refetches_excepted on mirror.refetches (source_id)
  where claim_version is not null or unconfirmed or replayed or missed_at is not null;
create index refetches_due on mirror.refetches (source_id, next_attempt_at);
create view mirror.awaited_reads as select * from mirror.refetches where next_attempt_at < 'infinity';
comment on view mirror.awaited_reads is 'The single reads that are still to be done. The others have shown their order, and are kept for the next proof.';

create table mirror.poll_state (
  source_id             text primary key references mirror.sources,
  history_since         bigint,
  polled_through        bigint,
  safe_through          bigint,
  safe_position         bigint,
  clock_error_seconds   double precision,
  clock_wrong_since     timestamptz,
  last_cycle_started_at timestamptz,
  last_cycle_ended_at   timestamptz,
  last_error            text,
  last_error_at         timestamptz,
  failing_since         timestamptz,
  trouble               text,
  margin_seconds        double precision,
  interval_seconds      double precision,
  unserved_since        bigint,
  unserved_until        bigint,
  unserved_at           timestamptz,
  unserved_error        text,
  list_doubted_at       timestamptz,
  list_emptied_at       timestamptz
);
comment on table  mirror.poll_state                       is 'The state of polling, one row per source.';
comment on column mirror.poll_state.history_since is 'Start of the period that safe_through covers, nanoseconds since 1970. Nothing older was ever read completely. A backfill that reaches further back lowers it.';
comment on column mirror.poll_state.polled_through        is 'End of the last window that the head sweep walked completely, nanoseconds since 1970: the cursor.';
comment on column mirror.poll_state.safe_through          is 'The mirror has every change with updatedAt from history_since (inclusive) to this instant (exclusive), as far as all evidence shows; nanoseconds since 1970. Goes back only when a breach is recorded (coverage_breaches). Null until the first proof.';
comment on column mirror.poll_state.safe_position         is 'Position in the change feed: every change before safe_through is at this position or an earlier one. Null until the first proof.';
comment on column mirror.poll_state.clock_error_seconds   is 'Seconds by which the provider''s clock was ahead of the database''s at the end of the last cycle, or behind it when negative; null while they agree to a minute. Nothing is proved meanwhile.';
comment on column mirror.poll_state.last_cycle_ended_at   is 'When the last cycle ended, whether it failed or not; by the database''s clock.';
comment on column mirror.poll_state.trouble               is 'Kind of last_error: key_refused, rate_limited, slow, away or other; null when the last cycle did not fail.';
comment on column mirror.poll_state.last_cycle_started_at is 'Start of the last cycle, by the database''s clock: a new leader keeps the pace of the old one.';
comment on column mirror.poll_state.margin_seconds  is 'How late a change may appear in the provider''s list: POLL_MARGIN_SECONDS at the last cycle.';
comment on column mirror.poll_state.interval_seconds is 'From the start of a poll to the start of the next: POLL_INTERVAL_SECONDS at the last cycle.';
comment on column mirror.poll_state.unserved_since  is 'Start of the last window that the provider''s list could not serve, nanoseconds since 1970: reading went on behind it. unserved_until is its end; unserved_error says what the provider answered, unserved_at since when.';
comment on column mirror.poll_state.list_doubted_at is 'When the provider''s list was found to omit orders that the mirror has, by the database''s clock; null while it omits none. Until that is explained nothing is proved.';
comment on column mirror.poll_state.list_emptied_at is 'When the provider''s list was first found to show none of the orders that reads have shown there, by the database''s clock; null once it shows any. Until a day later nothing is proved, and no order is found to be gone.';

create table mirror.coverage (
  coverage_id bigint generated always as identity,
  source_id   text not null references mirror.sources,
  since       bigint not null,
  until       bigint not null,
  sweep       text not null,
  proved      boolean not null default false,
  awaits_head boolean not null default false,
  unlisted    text[] not null default '{}',
  fence       bigint not null,
  begun_at    bigint,
  requests    integer not null,
  orders      integer not null,
  started_at  timestamptz not null default clock_timestamp(),
  ended_at    timestamptz not null default clock_timestamp(),
  primary key (coverage_id, source_id),
  check (since < until)
);
comment on table  mirror.coverage       is 'The windows of updatedAt that were completely walked: the proof behind safe_through. A window that the proof no longer needs is deleted two days after it was read.';
comment on column mirror.coverage.sweep is 'Which sweep walked it: proof, backfill or verify; kept: the part of an older proof that a breach did not withdraw.';
comment on column mirror.coverage.proved is 'True when nothing in the window can be missing: it was read completely, so late that no change could still appear in it, and a head sweep has since read all that could have left it. Only such windows move safe_through. Withdrawn when evidence shows that something was missing: see coverage_breaches.';
comment on column mirror.coverage.awaits_head is 'True for a window that was walked, until the end of the next head sweep: then it is a proof, or, if the list omitted orders that the mirror has, deleted.';
comment on column mirror.coverage.unlisted is 'References of orders that the mirror had in the window and its pages did not show: of a proof, those that single reads have shown and the list never does.';
comment on column mirror.coverage.begun_at is 'When its first page was requested, by the provider''s clock (a lower bound), nanoseconds since 1970.';
create index coverage_by_time on mirror.coverage (source_id, until) where proved;
create index coverage_awaiting on mirror.coverage (source_id) where awaits_head;

create table mirror.coverage_breaches (
  breach_id bigint generated always as identity,
  source_id text not null references mirror.sources,
  since     bigint not null,
  until     bigint not null,
  kind      text not null check (kind in ('missed_change', 'differing', 'late_event')),
  reference text not null,
  version   bigint not null,
  found_by  text not null,
  found_at  timestamptz not null default clock_timestamp(),
  detail    text not null,
  safe_through_before bigint,
  safe_through_after  bigint,
  reproved_at timestamptz,
  primary key (breach_id, source_id),
  check (since < until)
);
comment on table  mirror.coverage_breaches           is 'Proofs that were withdrawn because a change that they had missed was found. The period is read and proved again. Append-only.';
create index coverage_breaches_open on mirror.coverage_breaches (source_id) where reproved_at is null;

create view mirror.proved as
select source_id, since, until from mirror.coverage where proved
union all
select source_id, history_since, safe_through from mirror.poll_state where history_since < safe_through;
comment on view mirror.proved is 'Windows of updatedAt in which nothing can be missing. They overlap: coverage keeps windows up to safe_through only while they are recent.';

create table mirror.leases (
  name       text primary key,
  holder     text not null,
  fence      bigint not null,
  expires_at timestamptz not null,
  server     text not null
);
comment on table  mirror.leases            is 'Which process leads what. Rows instead of advisory locks, because connection poolers break those.';
comment on column mirror.leases.fence      is 'Grows by one with each new holder; a write under an older number is refused.';
comment on column mirror.leases.server     is 'The server on which it was taken (mirror.server_identity): a database that was restored meanwhile may have lost what was written under it.';
-- Web, which strangers can reach, leads alerting. Only who may change an order may also lead what reads and removes orders.
create policy read on mirror.leases for select using (true);
create policy lead on mirror.leases
  using (name = 'alerting' or has_table_privilege('mirror.orders', 'insert'));
alter table mirror.leases enable row level security;

-- Append-only and in the order of time: block ranges are as good as a b-tree here and cost the writers almost nothing.
create index history_by_time on mirror.history using brin (seen_at) with (autosummarize = on);
-- New entries go to the end, which costs a writer about 1 us each.
create index orders_by_updated on mirror.orders (updated_at);
create index orders_by_changed on mirror.orders (changed_at);
-- For the read API, about 3 us each (measured with 1,000,000 orders): without them, a page of a rare status, of a
-- small branch or fleet, or of new orders reads the whole table.
create index orders_by_status     on mirror.orders (source_id, status, version);
create index orders_open          on mirror.orders (source_id, version) where status not in ('cancelled', 'delivered') and real_delivery_time is null;
create index orders_by_branch     on mirror.orders (source_id, branch_id, version);
-- Only of a provider whose orders name their branch without an id.
create index orders_by_branch_name on mirror.orders (source_id, branch_reference, version)
  where branch_id is null and branch_reference is not null;
create index orders_by_fleet      on mirror.orders (source_id, fleet_name, version);
create index orders_by_first_seen on mirror.orders (source_id, first_seen_at, reference);
-- One index for complete externalOrderIds and for their sequence, whatever the database's collation.
create index orders_by_external on mirror.orders (source_id, external_order_id text_pattern_ops) where external_order_id is not null;

create table mirror.branches (
  source_id       text not null references mirror.sources,
  branch_id       text not null,
  reference       text,
  name            text,
  street          text,
  city            text,
  postcode        text,
  fleet_name      text,
  zone_code       text,
  zone_name       text,
  connected_zones jsonb not null default '[]',
  position        integer not null default 0,
  raw             json not null,
  first_seen_at   timestamptz not null default clock_timestamp(),
  last_seen_at    timestamptz not null default clock_timestamp(),
  closed_at       timestamptz,
  primary key (source_id, branch_id)
);
comment on table  mirror.branches                 is 'The branches of each source as the provider last listed them. A branch that is no longer listed is closed and kept.';
create index branches_by_reference on mirror.branches (source_id, reference);

create function mirror.instant_at(nanos bigint) returns timestamptz
language sql stable strict parallel safe
return timestamptz 'epoch' + (nanos / 1000) * interval '1 microsecond';
comment on function mirror.instant_at is 'Nanoseconds since 1970 as timestamptz, cut to the microsecond. Exact, where to_timestamp would round.';

create function mirror.nanos_of(instant timestamptz) returns bigint
language sql stable strict parallel safe
return (extract(epoch from instant) * 1000000)::bigint * 1000;
comment on function mirror.nanos_of is 'Nanoseconds since 1970 of an instant; the counterpart of instant_at.';

-- From the left, one escape after the other: what a backslash means follows from those before it, and a search that looks
-- back for them takes the square of the time.
create function mirror.replace_unreadable(document text) returns json
language sql immutable strict parallel safe
return (
  select string_agg(coalesce(readable[1], '\ufffd'), '' order by place)::json
  from regexp_matches(document,
    '((?:[^\\]|\\[^u]|\\u(?!0000|[dD][89a-fA-F])|\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2})+)|\\u[[:xdigit:]]{4}',
    'g') with ordinality as part (readable, place));
comment on function mirror.replace_unreadable is 'The work of readable_json, for a document that may need it.';

create function mirror.readable_json(raw json) returns json
language sql immutable strict parallel safe
return case when raw::text !~* '\\u(0000|d[89a-f])' then raw else mirror.replace_unreadable(raw::text) end;
comment on function mirror.readable_json is 'The document with NUL characters and unpaired surrogates replaced: a snapshot may contain them, and a single one would make every query that reads its fields fail.';

create function mirror.cast_time(value text) returns timestamptz
language plpgsql stable strict parallel unsafe as $$
begin
  return value::timestamptz;
exception when data_exception then
  return null;
end
$$;
comment on function mirror.cast_time is 'The text as timestamptz, or null where the cast would fail.';

create function mirror.read_time(value text) returns timestamptz
language sql stable strict
return mirror.cast_time(case
  when value ~ '^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d.*([Zz]|[+-]\d\d(:?\d\d)?)$'
  -- Truncated to microseconds, as in mirror.orders; the cast would round.
  then regexp_replace(replace(value, ',', '.'), '(\.\d{6})\d+', '\1')
end);
-- pg_input_is_valid came with PostgreSQL 16; the older way cannot run in parallel.
do $do$
begin
  if current_setting('server_version_num')::integer >= 160000 then
    create or replace function mirror.cast_time(value text) returns timestamptz language sql stable strict parallel safe
    as $$ select case when pg_input_is_valid(value, 'timestamptz') then value::timestamptz end $$;
    alter function mirror.read_time parallel safe;
  end if;
end
$do$;
comment on function mirror.read_time is 'The instant of an ISO 8601 date-time with a time zone, or null when the text is not one.';
create index corrections on mirror.history (source_id, verdict, history_id) include (reference) where verdict = 'corrected';
