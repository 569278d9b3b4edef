-- Erasure: the mirror keeps an order's reference, status, times, fleet and branch, and nothing else of it comes back.

create table mirror.erasures (
  source_id  text not null references mirror.sources,
  reference  text not null,
  erased_at  timestamptz not null default clock_timestamp(),
  primary key (source_id, reference)
);
comment on table  mirror.erasures           is 'Orders whose personal data was erased. Everything that arrives about them is redacted before it is written, so rows must stay forever.';
comment on column mirror.erasures.erased_at is 'When the erasure was first requested.';
comment on column mirror.erasures.reference is 'The erased order''s reference.';
comment on column mirror.erasures.source_id is 'The source; references sources.';

create function mirror.plain_value(value json) returns json
language sql immutable parallel safe
return case when json_typeof(value) not in ('object', 'array') then value end;
comment on function mirror.plain_value is 'The value, or null if it has parts: in the place of a text they may say anything.';

create function mirror.time_value(value json) returns json
language sql stable
return case when mirror.read_time(value #>> '{}') is not null then value end;
comment on function mirror.time_value is 'The value, or null if it is no date-time: in the place of one, any text may stand.';

create function mirror.redact_order(raw json, reference text, status text) returns json
language sql stable
return (
  -- Fields are named one by one: one that the provider adds later must not pass. Of unreadable input, nothing is kept.
  select json_build_object(
    'reference', reference,
    'externalOrderId', null,
    'status', status,
    'livemode', mirror.plain_value(o -> 'livemode'),
    'fleet', json_build_object('name', mirror.plain_value(o -> 'fleet' -> 'name')),
    'schedule', json_build_object(
      'mode', mirror.plain_value(o -> 'schedule' -> 'mode'),
      'resolved', json_build_object(
        'pickupTime', mirror.time_value(o -> 'schedule' -> 'resolved' -> 'pickupTime'),
        'deliveryTime', mirror.time_value(o -> 'schedule' -> 'resolved' -> 'deliveryTime'),
        'basis', mirror.plain_value(o -> 'schedule' -> 'resolved' -> 'basis'))),
    'pickupTime', mirror.time_value(o -> 'pickupTime'),
    'deliveryTime', mirror.time_value(o -> 'deliveryTime'),
    'realPickupTime', mirror.time_value(o -> 'realPickupTime'),
    'realDeliveryTime', mirror.time_value(o -> 'realDeliveryTime'),
    'updatedAt', mirror.time_value(o -> 'updatedAt'),
    'branch', json_build_object('id', mirror.plain_value(o -> 'branch' -> 'id'), 'reference', mirror.plain_value(o -> 'branch' -> 'reference')),
    'erased', true)
  from (select mirror.readable_json(raw) as o) readable
);
comment on function mirror.redact_order is 'An order object without personal data: reference, status, times, fleet and branch stay. Applying it twice gives the same result.';
