-- What proves the mirror complete, and what webhooks lost.

create table mirror.event_delays (
  source_id     text not null references mirror.sources,
  hour          timestamptz not null,
  late          boolean not null,
  up_to_seconds integer not null,
  events        bigint not null,
  primary key (source_id, hour, late, up_to_seconds)
);
comment on table  mirror.event_delays               is 'How long after their change events came, counted by the hour in which we learned of it.';
comment on column mirror.event_delays.late          is 'True when a read had found the change before the event came.';
comment on column mirror.event_delays.up_to_seconds is 'Longest delay counted here, in seconds from updatedAt; 2147483647: any longer one.';
comment on column mirror.event_delays.events        is 'How many changes of status were announced so.';
