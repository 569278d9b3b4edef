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

create function mirror.redact_order(raw json, reference text, status text) returns json
language sql stable parallel safe
return (
  -- Fields are named one by one: one that the provider adds later must not pass. Of unreadable input, nothing is kept.
  select json_build_object(
    'reference', reference,
    'externalOrderId', null,
    'status', status,
    'livemode', o -> 'livemode',
    'fleet', json_build_object('name', o -> 'fleet' -> 'name'),
    'schedule', json_build_object(
      'mode', o -> 'schedule' -> 'mode',
      'resolved', json_build_object(
        'pickupTime', o -> 'schedule' -> 'resolved' -> 'pickupTime',
        'deliveryTime', o -> 'schedule' -> 'resolved' -> 'deliveryTime',
        'basis', o -> 'schedule' -> 'resolved' -> 'basis')),
    'pickupTime', o -> 'pickupTime',
    'deliveryTime', o -> 'deliveryTime',
    'realPickupTime', o -> 'realPickupTime',
    'realDeliveryTime', o -> 'realDeliveryTime',
    'updatedAt', o -> 'updatedAt',
    'branch', json_build_object('id', o -> 'branch' -> 'id', 'reference', o -> 'branch' -> 'reference'),
    'erased', true)
  from (select mirror.readable_json(raw) as o) readable
);
comment on function mirror.redact_order is 'An order object without personal data: reference, status, times, fleet and branch stay. Applying it twice gives the same result.';
