-- Conditions that people are told of, without a monitoring system.

create table mirror.alerts (
  name      text not null,
  source_id text not null references mirror.sources,
  since     timestamptz not null default clock_timestamp(),
  ended_at  timestamptz,
  told_at   timestamptz,
  primary key (name, source_id)
);
comment on table  mirror.alerts          is 'Conditions that hold, or of whose end somebody is still to be told. Kept here so that a restart repeats nothing.';
comment on column mirror.alerts.name     is 'Name of the alert, as in config/prometheus/alerts.yml.';
comment on column mirror.alerts.since    is 'When the condition began to hold.';
comment on column mirror.alerts.ended_at is 'When it ceased to hold; the row goes once that was told.';
comment on column mirror.alerts.told_at  is 'When the outgoing webhook accepted that it is firing; null before.';
