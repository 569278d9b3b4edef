-- The change feed: each change of an order with its position, without gaps and without duplicates.

create table mirror.changes (
  position            bigint generated always as identity,
  source_id           text not null,
  reference           text not null,
  revision            integer not null,
  history_id          bigint not null,
  previous_history_id bigint,
  status              text not null,
  previous_status     text,
  via                 text not null,
  event_id            text,
  event_type          text,
  version             bigint not null,
  verdict             mirror.change_verdict not null,
  changed_at          timestamptz not null default clock_timestamp(),
  primary key (position, source_id)
);
comment on table  mirror.changes          is 'One row per real change of an order, in the order of application: the change feed. Rows never change, and only retention deletes them.';
comment on column mirror.changes.position is 'Position in the feed: ascending within an order, with gaps. Read only up to mirror.feed_fence(), called in an earlier statement: a smaller position may commit later.';
-- Every reader of the feed asks for one source.
create index changes_in_feed_order on mirror.changes (source_id, position);

create function mirror.server_identity() returns text
language plpgsql stable as $$
declare
  system text;
  timeline text;
begin
  begin
    select system_identifier into system from pg_control_system();
    timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
  exception when insufficient_privilege or undefined_function or feature_not_supported or object_not_in_prerequisite_state then
    null;
  end;
  return coalesce(system, '-') || '/' || coalesce(timeline, '-');
end
$$;
comment on function mirror.server_identity is 'The server and its timeline; parts that the server does not reveal are "-". It changes when the database is restored elsewhere or to an earlier moment.';
create index changes_by_time on mirror.changes using brin (changed_at) with (autosummarize = on);
create table mirror.feed (
  only_row       boolean primary key default true check (only_row),
  server         text not null default mirror.server_identity(),
  server_started timestamptz not null default pg_postmaster_start_time()
);
comment on table  mirror.feed                is 'One row: the server that the feed was last written on.';
comment on column mirror.feed.server_started is 'When that server process started. While this is unchanged, so is the server, and no further check is needed.';
insert into mirror.feed default values;

create table mirror.feed_epochs (
  epoch_number   integer generated always as identity primary key,
  epoch          text not null unique default left(replace(gen_random_uuid()::text, '-', ''), 12),
  after_position bigint not null,
  server         text not null,
  begun_at       timestamptz not null default clock_timestamp()
);
comment on table  mirror.feed_epochs                is 'Each server that the feed was written on, in sequence. A change up to after_position is the same in earlier epochs; a later one that a reader of an earlier epoch saw may have been lost with that server.';
insert into mirror.feed_epochs (after_position, server) select 0, server from mirror.feed;

create function mirror.newest_feed_position() returns bigint
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select case when is_called then last_value else last_value - 1 end from mirror.changes_position_seq
$$;
comment on function mirror.newest_feed_position is 'The last position that was given out, committed or not; 0 when there was none.';

-- What safe_through claims was committed before it moves, or is written by the same transaction: no position of it is
-- beyond the newest one at that moment.
create function mirror.note_safe_position() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'INSERT' or new.safe_through is distinct from old.safe_through then
    new.safe_position := case when new.safe_through is not null then mirror.newest_feed_position() end;
  end if;
  return new;
end
$$;
comment on function mirror.note_safe_position is 'Notes the feed''s newest position whenever safe_through moves.';
create trigger poll_state_notes_position before insert or update of safe_through on mirror.poll_state
  for each row execute function mirror.note_safe_position();

-- Runs first on a new server, before its first change is written or read, so that after_position is exact. The row lock
-- makes all others wait until the epoch is committed. A restart of the same server begins no epoch, and nobody waits
-- for it to be recorded.
create function mirror.begin_feed_epoch() returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present text := mirror.server_identity();
begin
  if exists (select from mirror.feed where server = present) then
    update mirror.feed set server_started = pg_postmaster_start_time()
    where only_row in (select only_row from mirror.feed for update skip locked);
    return false;
  end if;
  if not exists (select from mirror.feed where server <> present for update) then
    return false;
  end if;
  update mirror.feed set server = present, server_started = pg_postmaster_start_time();
  insert into mirror.feed_epochs (after_position, server)
  select coalesce(max(position), 0), present from (
    select max(position) as position from mirror.changes union all select max(removed_position) from mirror.sources) kept;
  return true;
end
$$;
comment on function mirror.begin_feed_epoch is 'Begins a new epoch of the change feed, and returns true, when the database moved to another server, or back in time; otherwise does nothing.';

-- Each writer shows, with a lock that ends with its transaction, the last position before its own. Other transactions
-- show nothing and delay nothing. A lock has room for 31 bits of the position: enough to distinguish it from every
-- other position after which a transaction that is still open can have begun.
create function mirror.enter_feed() returns trigger
language plpgsql as $$
declare
  ignored text;
begin
  -- Runs with the writer's rights. An assignment costs less than a query, and this is part of each
  -- statement that applies.
  ignored := pg_advisory_xact_lock_shared(
    'mirror.changes'::regclass::oid::integer,
    (coalesce(pg_sequence_last_value('mirror.changes_position_seq'), 0) % 2147483648)::integer);
  -- A session stays on its server, so it checks once; a rollback takes the setting back, too.
  if current_setting('order_mirror.entered_feed', true) is distinct from 'yes' then
    if not exists (select from mirror.feed where server_started = pg_postmaster_start_time()) then
      perform mirror.begin_feed_epoch();
    end if;
    ignored := set_config('order_mirror.entered_feed', 'yes', false);
  end if;
  return null;
end
$$;
comment on function mirror.enter_feed is 'Locks the last position before those that the statement will take.';
create trigger changes_enter_feed before insert on mirror.changes for each statement execute function mirror.enter_feed();

-- A login that cannot write changes holds such a lock only where no administrator has revoked advisory locks
-- (mirror.prepare_reader). Its lock is ignored here, but an exclusive one makes writers wait.
create function mirror.feed_writers() returns table (pid integer, after_position_bits bigint)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select l.pid, l.objid::bigint
  from pg_locks l left join lateral pg_stat_get_activity(l.pid) a on l.pid is not null
  where l.locktype = 'advisory' and l.objsubid = 2 and l.classid = 'mirror.changes'::regclass and l.granted
    and l.database = (select oid from pg_database where datname = current_database())
    and (a.usesysid is null or exists (
      select from pg_roles r
      where pg_has_role(a.usesysid, r.oid, 'MEMBER') and has_table_privilege(r.oid, 'mirror.changes', 'INSERT')))
$$;
comment on function mirror.feed_writers is 'The transactions that are writing changes: process, and the lowest 31 bits of the position before their first.';

-- The newest position is read before the locks: a transaction that took a position up to it locked first, and either
-- still holds its lock or has ended. The position is read again because a lock may be younger than the first reading.
create function mirror.feed_fence() returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  newest bigint := mirror.newest_feed_position();
  held bigint[] := array(select after_position_bits from mirror.feed_writers());
  later bigint;
begin
  if held = '{}' then
    return newest;
  end if;
  later := mirror.newest_feed_position();
  return least(newest, (select min(later - (later - bits) % 2147483648) from unnest(held) as bits));
end
$$;
comment on function mirror.feed_fence is 'The position up to which (inclusive) every change is committed or never will be. A statement that begins after this function returns sees them all.';

create function mirror.change_digest(changes mirror.changes) returns text
language sql stable as $$
  select left(encode(sha256(convert_to(
    changes.reference || ' ' || changes.revision || ' ' || changes.version || ' ' || extract(epoch from changes.changed_at), 'UTF8')), 'hex'), 8)
$$;
comment on function mirror.change_digest is 'Distinguishes a change from another one that later took its position, on a server that did not have the first.';

create function mirror.feed_place(of_source text, of_epoch text, after_position bigint, digest text) returns bigint
language plpgsql stable as $$
declare
  epoch_known integer;
  place bigint;
  removed bigint;
begin
  select epoch_number into epoch_known from mirror.feed_epochs where epoch = of_epoch;
  if epoch_known is null then
    return case when of_epoch is null then 0 end;
  end if;
  select least(feed_place.after_position, min(e.after_position)) into place
  from mirror.feed_epochs e where e.epoch_number > epoch_known;
  select removed_position into removed from mirror.sources where source_id = of_source;
  if removed > place then
    return null;
  end if;
  if place = feed_place.after_position and place > coalesce(removed, 0) and digest <> '' and not exists (
    select from mirror.changes c
    where c.source_id = of_source and c.position = place and mirror.change_digest(c) = digest
  ) then
    return null;
  end if;
  -- No position without a change was ever given beyond the newest one. A reader there would get nothing for a long time.
  if digest = '' and place > mirror.newest_feed_position() then
    return null;
  end if;
  return place;
end
$$;
comment on function mirror.feed_place is 'The position after which a reader with this epoch, position and digest continues: the same one, or an earlier one when the server that issued the later positions was lost. Null when changes after it were removed, when it is not known what the reader has seen, and when the feed has no such position yet. Without an epoch: the beginning.';
