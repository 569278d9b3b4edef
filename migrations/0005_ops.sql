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
comment on column mirror.ops_actions.action    is 'refetch, retry, dismiss, pause, resume, read_gaps, reread, log_in, log_out or end_session; of commands also adopt, erase, backfill, verify, cancel, export, queue and outgoing.';
comment on column mirror.ops_actions.source_id is 'Source that it concerned; null: every source.';
comment on column mirror.ops_actions.target    is 'What it concerned: an order''s reference, a part of the quarantine, a job of a queue.';
comment on column mirror.ops_actions.note      is 'What the person wrote about it.';
comment on column mirror.ops_actions.affected  is 'How many objects it concerned; null when it was started and its end is not known.';
comment on column mirror.ops_actions.action_id is 'Number of the entry.';
comment on column mirror.ops_actions.at is 'When it was done, by the database''s clock.';

create table mirror.ops_sessions (
  token_hash   bytea primary key,
  role         text not null check (role in ('operator', 'viewer')),
  created_at   timestamptz not null default clock_timestamp(),
  last_seen_at timestamptz not null default clock_timestamp(),
  expires_at   timestamptz not null
);
comment on table  mirror.ops_sessions              is 'Sessions of the ops pages. A row is deleted at logout, or at the first login after its end.';
comment on column mirror.ops_sessions.token_hash   is 'HMAC of the cookie''s value, keyed with the role''s password. The hash alone gives no access, and a new password ends every session of the old one.';
comment on column mirror.ops_sessions.last_seen_at is 'Last use, to the minute: an idle session ends before expires_at.';
comment on column mirror.ops_sessions.created_at is 'When the person logged in, by the database''s clock.';
comment on column mirror.ops_sessions.expires_at is 'When the session ends at the latest.';
comment on column mirror.ops_sessions.role is 'What the session may do: operator or viewer.';
create index ops_sessions_by_end on mirror.ops_sessions (expires_at);
