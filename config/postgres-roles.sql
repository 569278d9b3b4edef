-- Rights of each process of order-mirror in Postgres, and no more. `order-mirror migrate --roles` runs it after the migrations;
-- so does psql, as the role that migrates. Safe to run again, and to be run again after every upgrade:
--
--   psql "$OWNER_DATABASE_URL" -v ON_ERROR_STOP=1 -f config/postgres-roles.sql
--
-- The first run needs CREATEROLE, or an administrator who creates the four roles beforehand, as config/postgres-logins.sql
-- does. Each process has a login of its own, and with it a DATABASE_URL of its own:
--
--   create role mirror_web    login password '…' in role order_mirror_web;
--   create role mirror_worker login password '…' in role order_mirror_worker;
--   create role mirror_poller login password '…' in role order_mirror_poller;
--
-- Further rights, for whoever uses what needs them:
--
--   grant order_mirror_worker to mirror_web;                           -- WRITE_THROUGH applies what it forwarded
--   grant order_mirror_retention to mirror_worker;                   -- …_KEPT_FOR removes what is old
--   grant pg_signal_backend, pg_read_all_stats to mirror_worker;       -- ends reports that run for too long
--   call mirror.admit_reader('login');                                 -- a reporting tool
--
-- `up` and `demo` are all processes in one: their login is a member of all of these roles. Commands that change
-- something (backfill, verify, replay, refetch, erase, source, outgoing) run as the owner.
--
-- `order-mirror doctor` holds a login against this file. test/e2e/roles.test.ts runs each process under its own login and
-- holds the statements that it sent against the rights: none is refused, and none is given that no statement needs.

do $$
declare
  name text;
begin
  foreach name in array array['order_mirror_web', 'order_mirror_worker', 'order_mirror_poller', 'order_mirror_retention'] loop
    if not exists (select from pg_catalog.pg_roles where rolname = name) then
      execute pg_catalog.format('create role %I nologin', name);
    end if;
  end loop;
end
$$;

-- What is new since the last run must not be left with rights of its past.
revoke all on all tables in schema mirror
  from order_mirror_web, order_mirror_worker, order_mirror_poller, order_mirror_retention;

-- All: read the mirror, say which sources are configured, take a turn as leader, for alerting or for retention.
grant usage on schema mirror, reporting to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant select on all tables in schema mirror to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant select on all tables in schema reporting to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant select on public.order_mirror_migrations, public.order_mirror_migrations_lock, public.order_mirror_migration_runs
  to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant insert (source_id, mode, base_url, provider), update (base_url, provider) on mirror.sources
  to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant insert, update on mirror.leases to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant insert, update, delete on mirror.alerts to order_mirror_web, order_mirror_worker, order_mirror_poller;

-- Web: the only process that strangers reach. It adds events and notes down what people ask for; it cannot change or
-- remove an order, a decision, an event or an entry of the audit log.
grant insert on mirror.inbox, mirror.pending, mirror.ops_actions to order_mirror_web;
-- How many things an action concerned is known at its end.
grant update (affected) on mirror.ops_actions to order_mirror_web;
grant insert, update, delete on mirror.ops_sessions to order_mirror_web;
grant insert, update on mirror.refetches to order_mirror_web;
grant update, delete on mirror.quarantine to order_mirror_web;
-- How many calls its webhook addresses had, and how they ended.
grant insert, update, delete on mirror.webhook_calls to order_mirror_web;
revoke select on mirror.ops_sessions from order_mirror_worker, order_mirror_poller;

-- Worker and poller: apply what is known to the orders.
grant update, delete on mirror.pending to order_mirror_worker, order_mirror_poller;
grant insert, update on mirror.orders to order_mirror_worker, order_mirror_poller;
grant insert on mirror.history, mirror.changes, mirror.quarantine, mirror.refetches
  to order_mirror_worker, order_mirror_poller;
-- The body of an event about an order whose personal data was erased is blanked when it is applied.
grant update (body) on mirror.inbox to order_mirror_worker, order_mirror_poller;
grant usage on all sequences in schema mirror to order_mirror_worker, order_mirror_poller;

-- Whoever asks the provider notes how many requests it sent: the poller, and web where WRITE_THROUGH forwards requests.
grant insert, update, delete on mirror.provider_requests to order_mirror_web, order_mirror_poller;

-- Retention: remove what was kept for long enough, and tell the feed's readers.
grant usage on schema mirror to order_mirror_retention;
grant select, delete on mirror.inbox, mirror.history, mirror.changes to order_mirror_retention;
grant select, insert, update on mirror.feed_removals, mirror.retention_walks to order_mirror_retention;
grant select on mirror.outgoing_endpoints, mirror.outgoing_cursors, mirror.outgoing_deliveries to order_mirror_retention;

-- Worker: remove windows that were read, once nothing needs them, and old findings about lost events, which no
-- configuration turns off.
grant delete on mirror.coverage, mirror.unannounced_changes to order_mirror_worker;
grant insert, update on mirror.retention_walks, mirror.lost_events_removed to order_mirror_worker;

-- Worker: what the business's own systems receive.
grant insert, update on mirror.outgoing_endpoints, mirror.outgoing_cursors to order_mirror_worker;
grant insert, update, delete on mirror.outgoing_deliveries to order_mirror_worker;

-- Poller: what was read when, and what that proves.
-- Which organization a source belongs to shows in its branches.
grant update (branch_ids, refused_branches) on mirror.sources to order_mirror_poller;
grant insert, update on mirror.poll_state, mirror.branches, mirror.period_requests, mirror.announced_statuses,
  mirror.event_delays, mirror.unannounced_changes, mirror.lost_event_cursor, mirror.provider_behaviour to order_mirror_poller;
grant insert, update, delete on mirror.arrivals to order_mirror_poller;
grant insert on mirror.coverage to order_mirror_poller;
grant insert, update, delete on mirror.walks, mirror.walk_pages to order_mirror_poller;
-- Breaches are recorded by mirror.withdraw_proof, which runs with the owner's rights; the poller notes that a span is proved
-- again.
grant update (reproved_at) on mirror.coverage_breaches to order_mirror_poller;
grant update, delete on mirror.refetches to order_mirror_poller;
-- What could not be read singly leaves the quarantine by itself once it is read; an event that was dated ahead waits for a
-- decision again when its time has come, or is dismissed when a read refutes it.
grant update, delete on mirror.quarantine to order_mirror_poller;
grant insert on mirror.pending to order_mirror_poller;
grant insert, update, delete on mirror.open_order_checks to order_mirror_poller;

-- The queue, where it is kept in Postgres. It holds positions of the inbox and nothing else.
-- BullMQ makes the counter of a queue with its first job, for which no process has the right: so it is there before.
do $$
declare
  queue text;
begin
  foreach queue in array array['apply', 'outgoing'] loop
    execute pg_catalog.format('create sequence if not exists bullmq.%I', 'bullmq_jid_' || pg_catalog.md5(queue));
  end loop;
end
$$;
-- BullMQ moves jobs through temporary tables, which nobody else may make.
do $$
begin
  execute pg_catalog.format('grant temporary on database %I to order_mirror_web, order_mirror_worker', pg_catalog.current_database());
end
$$;
grant usage on schema bullmq to order_mirror_web, order_mirror_worker;
grant select, insert, update, delete on all tables in schema bullmq to order_mirror_web, order_mirror_worker;
grant usage on all sequences in schema bullmq to order_mirror_web, order_mirror_worker;
