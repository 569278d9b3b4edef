-- The database of order-mirror, its owner, and a login for each process. Run it once with psql, as an administrator of the
-- server. It reads the passwords from files, as deploy/make-secrets creates them:
--
--   SECRETS=/etc/order-mirror/secrets psql "$ADMIN_URL" -f config/postgres-logins.sql
--
-- Then, and after every upgrade, as the owner: order-mirror migrate --roles

\set ON_ERROR_STOP on
\set owner_password `cat "$SECRETS/password-owner"`
\set web_password `cat "$SECRETS/password-web"`
\set worker_password `cat "$SECRETS/password-worker"`
\set poller_password `cat "$SECRETS/password-poller"`

-- Passwords in statements would appear in the server's log.
set log_statement = 'none';
set log_min_error_statement = 'panic';

create role order_mirror_owner login password :'owner_password';
create role order_mirror_web nologin;
create role order_mirror_worker nologin;
create role order_mirror_poller nologin;
create role order_mirror_retention nologin;
create role order_mirror_reader nologin;

create role mirror_web login password :'web_password' in role order_mirror_web;
create role mirror_worker login password :'worker_password' in role order_mirror_worker, order_mirror_retention;
create role mirror_poller login password :'poller_password' in role order_mirror_poller;

-- The limits of a reader; mirror.admit_reader sets them for each login, because settings are not inherited.
alter role order_mirror_reader set default_transaction_read_only = on;
alter role order_mirror_reader set statement_timeout = '60s';
alter role order_mirror_reader set lock_timeout = '5s';
alter role order_mirror_reader set idle_in_transaction_session_timeout = '60s';
alter role order_mirror_reader set search_path = reporting;
alter role order_mirror_reader set temp_file_limit = '1GB';
-- Before Postgres 15 nobody but an administrator can set it: there, run this for each login that was admitted.
select current_setting('server_version_num')::int >= 150000 as can_grant_settings \gset
\if :can_grant_settings
grant set on parameter temp_file_limit to order_mirror_owner;
\endif

create database order_mirror owner order_mirror_owner;
-- For connections through a pooler, which cannot set it: compiling a plan takes longer than running it.
alter database order_mirror set jit = off;
\connect order_mirror

-- Other roles of this server cannot connect. Only administrators can create large objects. Temporary tables, advisory locks
-- and messages in the write-ahead log are for the owner and for the roles that config/postgres-roles.sql names: with them a
-- stranger could fill the disk and hold up who applies.
revoke all on database order_mirror from public;
grant connect on database order_mirror
  to order_mirror_web, order_mirror_worker, order_mirror_poller, order_mirror_reader;
select format('revoke execute on function %s from public', oid::regprocedure) from pg_catalog.pg_proc
where pronamespace = 'pg_catalog'::regnamespace
  and proname ~ '^(lo_creat|lo_create|lo_from_bytea|pg_logical_emit_message|pg_(try_)?advisory_(xact_)?lock(_shared)?)$'
\gexec
select format('grant execute on function %s to order_mirror_owner with grant option', oid::regprocedure)
from pg_catalog.pg_proc
where pronamespace = 'pg_catalog'::regnamespace and proname ~ '^(pg_logical_emit_message|pg_(try_)?advisory_(xact_)?lock(_shared)?)$'
\gexec
grant create on schema public to order_mirror_owner;
