-- The minimum rights of each process of order-mirror in Postgres. `order-mirror migrate --roles` runs this file after the
-- migrations. It can also be run with psql, as the role that migrates. Run it after every upgrade; it is safe to repeat:
--
--   psql "$OWNER_DATABASE_URL" -v ON_ERROR_STOP=1 -f config/postgres-roles.sql
--
-- The first run needs CREATEROLE, or an administrator who creates the four roles beforehand, as config/postgres-logins.sql
-- does. Each process has its own login, and so its own DATABASE_URL:
--
--   create role mirror_web    login password '…' in role order_mirror_web;
--   create role mirror_worker login password '…' in role order_mirror_worker;
--   create role mirror_poller login password '…' in role order_mirror_poller;
--
-- Further rights, for features that need them:
--
--   grant order_mirror_worker to mirror_web;                           -- WRITE_THROUGH applies what it forwarded
--   grant order_mirror_retention to mirror_worker;                   -- removes what is old
--   call mirror.admit_reader('login');                                 -- a reporting tool
--   call mirror.admit_reader('login', 'source');                       -- one that reads this source only
--
-- `up` and `demo` run all processes in one: their login is a member of all these roles. Commands that change
-- something (backfill, verify, replay, refetch, erase, source, outgoing) run as the owner.
--
-- test/e2e/production/roles.test.ts runs each process under its own login: no statement is refused, and no process can do
-- another one's work.

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

-- What no dump holds, so that it is lost in a restore: only the processes and reporting tools may connect, and statements
-- through a pooler are not compiled. The database's owner may say so.
do $$
declare
  here constant text := pg_catalog.current_database();
begin
  if (select pg_has_role(datdba, 'usage') from pg_catalog.pg_database where datname = here) then
    execute pg_catalog.format('alter database %I set jit = off', here);
    execute pg_catalog.format('revoke all on database %I from public', here);
    execute pg_catalog.format('grant connect on database %I to order_mirror_web, order_mirror_worker, order_mirror_poller', here);
    if exists (select from pg_catalog.pg_roles where rolname = 'order_mirror_reader') then
      execute pg_catalog.format('grant connect on database %I to order_mirror_reader', here);
    end if;
  end if;
end
$$;

-- Tables and functions must not keep the rights that an earlier release gave.
revoke all on all tables in schema mirror
  from order_mirror_web, order_mirror_worker, order_mirror_poller, order_mirror_retention;
revoke all on all routines in schema mirror
  from order_mirror_web, order_mirror_worker, order_mirror_poller, order_mirror_retention;

-- All: read the mirror, record which sources are configured, and become leader, for alerting or for retention.
grant usage on schema mirror, reporting to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant select on all tables in schema mirror to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant select on all tables in schema reporting to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant select on public.order_mirror_migrations, public.order_mirror_migrations_lock, public.order_mirror_migration_runs
  to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant execute on function mirror.record_sources, mirror.begin_feed_epoch, mirror.feed_fence, mirror.feed_place,
  mirror.newest_feed_position, mirror.server_identity to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant insert, update on mirror.leases to order_mirror_web, order_mirror_worker, order_mirror_poller;
grant insert, update, delete on mirror.alerts to order_mirror_web, order_mirror_worker, order_mirror_poller;

-- Web: the only process that strangers can reach. It adds events and records what people request. It cannot change or
-- remove an order, a decision, an event or an entry of the audit log.
grant insert on mirror.inbox, mirror.pending, mirror.ops_actions to order_mirror_web;
-- The number of objects that an action concerned is known only at its end, and then stays as it is.
grant update (affected) on mirror.ops_actions to order_mirror_web;
grant execute on function mirror.explain_incomplete to order_mirror_web;
grant insert, update, delete on mirror.ops_sessions to order_mirror_web;
grant insert, update on mirror.refetches to order_mirror_web;
grant update, delete on mirror.quarantine to order_mirror_web;
-- People resume polling and have gaps read on the ops pages.
grant update (paused_at, resumed_at, receives_events) on mirror.sources to order_mirror_web;
grant insert on mirror.period_requests to order_mirror_web;
-- People pause, resume, try and remove endpoints of outgoing webhooks, and have messages sent again. The policies of the
-- table let web end no delivery.
grant update (paused_at, resumed_at), delete on mirror.outgoing_endpoints to order_mirror_web;
grant insert (endpoint_id, source_id, event_type), delete,
  update (delivery_id, state, attempts, next_attempt_at, delivered_at, created_at)
  on mirror.outgoing_deliveries to order_mirror_web;
revoke select on mirror.ops_sessions from order_mirror_worker, order_mirror_poller;

-- Worker and poller: apply observations to the orders.
grant update, delete on mirror.pending to order_mirror_worker, order_mirror_poller;
grant insert, update on mirror.orders to order_mirror_worker, order_mirror_poller;
grant insert on mirror.history, mirror.changes, mirror.quarantine, mirror.refetches
  to order_mirror_worker, order_mirror_poller;
-- A claim takes over the request for a single read that stands already (mirror.follow_up).
grant update (reason, claim_version, requested_at, next_attempt_at, attempts, failures, last_error)
  on mirror.refetches to order_mirror_worker;
-- The body of an event about an order whose personal data was erased is blanked when it is applied.
grant update (body, headers) on mirror.inbox to order_mirror_worker, order_mirror_poller;
grant usage on all sequences in schema mirror to order_mirror_worker, order_mirror_poller;
grant execute on function mirror.proved_until, mirror.follow_up, mirror.find_breaches
  to order_mirror_worker, order_mirror_poller;

-- How many webhooks were received and requests sent, and their outcomes.
grant insert, update, delete on mirror.calls to order_mirror_web, order_mirror_poller;

-- Retention: remove old rows, and record that for the feed's readers.
grant usage on schema mirror to order_mirror_retention;
grant select, delete on mirror.inbox, mirror.quarantine, mirror.history, mirror.changes to order_mirror_retention;
grant select, insert, update on mirror.retention_walks to order_mirror_retention;
grant select, update (removed_position) on mirror.sources to order_mirror_retention;
grant select on mirror.outgoing_endpoints, mirror.outgoing_deliveries to order_mirror_retention;

-- Worker: remove windows that were read, once nothing needs them. No setting turns this off.
grant delete on mirror.coverage to order_mirror_worker;
grant insert, update on mirror.retention_walks to order_mirror_worker;

-- Worker: send changes to the business's own systems.
grant insert, update, delete on mirror.outgoing_deliveries to order_mirror_worker;
grant insert, update on mirror.outgoing_endpoints to order_mirror_worker;
grant execute on function mirror.under_way to order_mirror_worker;

-- Poller: record what was read when, and what that proves.
-- The branches of a source show which organization it belongs to.
grant update (branch_ids, refused_branches, branches_read_at, event_grace) on mirror.sources to order_mirror_poller;
grant insert, update on mirror.poll_state, mirror.branches, mirror.period_requests to order_mirror_poller;
grant insert, update, delete on mirror.coverage, mirror.webhook_hours to order_mirror_poller;
-- mirror.withdraw_proof records breaches, with the owner's rights; the poller records that a span is proved again.
grant execute on function mirror.withdraw_proof to order_mirror_poller;
grant update (reproved_at) on mirror.coverage_breaches to order_mirror_poller;
grant update, delete on mirror.refetches to order_mirror_poller;
-- An order that could not be read singly leaves the quarantine automatically once it is read.
grant delete on mirror.quarantine to order_mirror_poller;

-- The queue, when it is in Postgres. It holds only positions of the inbox.
-- BullMQ creates the counter of a queue with its first job, but no process has the right to do that: so create it here.
do $$
begin
  execute pg_catalog.format('create sequence if not exists bullmq.%I', 'bullmq_jid_' || pg_catalog.md5('apply'));
end
$$;
-- BullMQ moves jobs through temporary tables, which no other role may create.
do $$
begin
  execute pg_catalog.format('grant temporary on database %I to order_mirror_web, order_mirror_worker', pg_catalog.current_database());
end
$$;
-- The change feed and the queue take advisory locks, and the answer to a repeated event waits for a message in the log. An
-- administrator has revoked both from all other roles.
do $$
declare
  ours regprocedure;
begin
  for ours in
    select oid from pg_catalog.pg_proc
    where pronamespace = 'pg_catalog'::regnamespace
      and proname ~ '^(pg_logical_emit_message|pg_(try_)?advisory_(xact_)?lock(_shared)?)$'
      and not (has_function_privilege('order_mirror_web', oid, 'execute')
        and has_function_privilege('order_mirror_worker', oid, 'execute')
        and has_function_privilege('order_mirror_poller', oid, 'execute'))
  loop
    execute pg_catalog.format(
      'grant execute on function %s to order_mirror_web, order_mirror_worker, order_mirror_poller', ours);
  end loop;
end
$$;
grant usage on schema bullmq to order_mirror_web, order_mirror_worker;
grant select, insert, update, delete on all tables in schema bullmq to order_mirror_web, order_mirror_worker;
grant usage on all sequences in schema bullmq to order_mirror_web, order_mirror_worker;
