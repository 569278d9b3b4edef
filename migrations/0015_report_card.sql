-- What the report card of a provider needs for longer than the rows that it is counted from are kept.

create table mirror.provider_days (
  source_id text not null references mirror.sources,
  day       date not null,
  figure    text not null check (figure in ('requests', 'refused', 'lost', 'not_announced')),
  amount    bigint not null,
  primary key (source_id, day, figure)
);
comment on table  mirror.provider_days           is 'Figures about the provider per day of UTC, counted when the rows behind them were deleted: the recent days are in provider_requests and unannounced_changes.';
comment on column mirror.provider_days.source_id is 'The source; references sources.';
comment on column mirror.provider_days.day       is 'The day of UTC.';
comment on column mirror.provider_days.figure    is 'requests: sent to the provider. refused: answered with 429. lost, not_announced: changes that a read found before any event, by their last state in unannounced_changes.';
comment on column mirror.provider_days.amount    is 'How many.';
