/** Increment with every change of SCHEMA_SQL: a sandbox that finds another version drops its state and starts fresh. */
export const SCHEMA_VERSION = 6;

/**
 * The sandbox's own state. It is in code, not with the product's migrations: it is disposable, and a program that runs
 * against a real provider must never create it. All times are bigint nanoseconds since 1970 (UTC).
 */
export const SCHEMA_SQL = `
create schema sandbox;
comment on schema sandbox is 'State of the sandbox, a stand-in for the provider. Not part of the mirror.';

create table sandbox.world (
  one_row        boolean primary key default true check (one_row),
  schema_version integer not null,
  seed           integer not null,
  clock_now      bigint,
  fleet_speed    float8,
  -- Not jsonb, which would change the order of members.
  directory      json not null
);

create sequence sandbox.order_number as bigint;
create sequence sandbox.event_number as bigint;

create table sandbox.orders (
  number            bigint primary key,
  organization_id   text not null,
  livemode          boolean not null,
  reference         text not null,
  external_order_id text,
  origin            text not null,
  status            text not null,
  branch_id         uuid not null,
  zone_code         text not null,
  first_name        text not null,
  phone             text not null,
  street            text not null,
  city              text not null,
  postcode          text not null,
  latitude          float8 not null,
  longitude         float8 not null,
  distance_km       float8 not null,
  schedule_mode     text not null,
  basis             text not null,
  pickup_time       bigint not null,
  delivery_time     bigint not null,
  real_pickup       bigint,
  real_delivery     bigint,
  created_at        bigint not null,
  updated_at        bigint not null,
  next_move_at      bigint
);
create table sandbox.late_changes (
  change_id  bigint generated always as identity primary key,
  number     bigint not null,
  visible_at bigint not null,
  row        jsonb not null
);
create index late_changes_number on sandbox.late_changes (number, change_id);
create index late_changes_visible_at on sandbox.late_changes (visible_at, change_id);

create table sandbox.charges (
  number          bigint primary key,
  organization_id text not null,
  recorded_at     bigint not null
);

create table sandbox.searches (
  organization_id text not null,
  search_key      text not null,
  -- As above: the first answer must not differ from later ones.
  result          json not null,
  searched_at     bigint not null,
  primary key (organization_id, search_key)
);

create table sandbox.endpoints (
  endpoint_id     text primary key,
  organization_id text not null,
  livemode        boolean not null,
  url             text not null,
  secret          text not null,
  scheme          text not null
);

create table sandbox.events (
  event_number    bigint primary key,
  event_id        text not null unique,
  organization_id text not null,
  livemode        boolean not null,
  reference       text not null,
  type            text not null,
  created         bigint not null,
  sent_as         text not null check (sent_as in ('event', 'lost', 'no_plan', 'no_endpoint')),
  body            text not null
);
create index events_reference on sandbox.events (reference, event_number);

create table sandbox.deliveries (
  delivery_id bigint generated always as identity primary key,
  event_id    text not null references sandbox.events (event_id) on delete cascade,
  endpoint_id text not null references sandbox.endpoints on delete cascade,
  reason      text not null check (reason in ('event', 'duplicate', 'resend')),
  corrupt     boolean not null,
  state       text not null check (state in ('pending', 'delivered', 'failed')),
  due_at      bigint not null,
  taken       boolean not null default false,
  attempts    integer not null default 0
);
create index deliveries_event on sandbox.deliveries (event_id);
create index deliveries_due on sandbox.deliveries (due_at, delivery_id) where state = 'pending';

create table sandbox.attempts (
  attempt_id   bigint generated always as identity primary key,
  delivery_id  bigint not null references sandbox.deliveries on delete cascade,
  attempted_at bigint not null,
  duration_ms  integer not null,
  status       integer,
  error        text
);
create index attempts_delivery on sandbox.attempts (delivery_id, attempt_id);

-- Eight characters of base 32 that are different for every number below 2^40: each step can be undone.
create function sandbox.make_reference(number bigint, seed integer) returns text
  language plpgsql immutable strict parallel safe as $$
declare
  letters constant text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  x bigint := (number * 2654435 + seed::bigint * 7919) & 1099511627775;
begin
  x := ((x # (x >> 19)) * 1540483) & 1099511627775;
  x := x # (x >> 17);
  return 'DO-'
    || substr(letters, (x >> 35)::integer + 1, 1) || substr(letters, (x >> 30 & 31)::integer + 1, 1)
    || substr(letters, (x >> 25 & 31)::integer + 1, 1) || substr(letters, (x >> 20 & 31)::integer + 1, 1)
    || substr(letters, (x >> 15 & 31)::integer + 1, 1) || substr(letters, (x >> 10 & 31)::integer + 1, 1)
    || substr(letters, (x >> 5 & 31)::integer + 1, 1) || substr(letters, (x & 31)::integer + 1, 1);
end
$$;
`;

/** Dropped before seeding many orders, and recreated afterwards. */
export const ORDER_INDEXES: Readonly<Record<string, string>> = {
  orders_reference: "create unique index orders_reference on sandbox.orders (reference)",
  orders_external:
    "create unique index orders_external on sandbox.orders (organization_id, livemode, external_order_id)",
  orders_updated:
    "create index orders_updated on sandbox.orders (organization_id, livemode, updated_at, number)",
  orders_pickup:
    "create index orders_pickup on sandbox.orders (organization_id, livemode, pickup_time, number)",
  orders_delivery:
    "create index orders_delivery on sandbox.orders (organization_id, livemode, delivery_time, number)",
  orders_status:
    "create index orders_status on sandbox.orders (organization_id, livemode, status, updated_at, number)",
  orders_branch:
    "create index orders_branch on sandbox.orders (organization_id, livemode, branch_id, updated_at, number)",
  orders_moving:
    "create index orders_moving on sandbox.orders (next_move_at, number) where next_move_at is not null",
};
