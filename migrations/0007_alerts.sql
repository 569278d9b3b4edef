-- Conditions that people are notified of, without a monitoring system.

create table mirror.alerts (
  name      text not null,
  -- No foreign key: it may name an endpoint or a queue as well.
  subject   text not null,
  since     timestamptz not null,
  ended_at  timestamptz,
  notified_at   timestamptz,
  primary key (name, subject)
);
comment on table  mirror.alerts          is 'Conditions that hold, or whose end has not been notified yet. Kept here so that a restart repeats no notification.';
comment on column mirror.alerts.name     is 'Name of the condition, as in docs/runbook.md.';
comment on column mirror.alerts.subject  is 'Source, endpoint or queue that it is about; empty for a condition that exists only once.';
comment on column mirror.alerts.since    is 'When the condition began to hold.';
comment on column mirror.alerts.ended_at is 'When it ceased to hold; the row is deleted once that was notified.';
comment on column mirror.alerts.notified_at  is 'When the outgoing webhook accepted that it is firing; null before.';
