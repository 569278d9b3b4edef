import { addSeconds } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { GAZETTEER } from "./places.ts";
import type { Connection } from "./world.sql.ts";
import { measureDistance } from "./schedule.ts";
import { canTakeOrders } from "./fleet.ts";
import type { SandboxState } from "./state.ts";

/** A street near a branch that takes orders, by the names of the columns. */
export interface Way {
  readonly branch_id: string;
  readonly zone_code: string;
  readonly street: string;
  readonly city: string;
  readonly postcode: string;
  readonly latitude: number;
  readonly longitude: number;
  readonly distance_km: number;
}

/** An invented past: `count` orders, created at even intervals in [since, until). */
export interface PastRequest {
  readonly organizationId: string;
  readonly livemode: boolean;
  readonly count: number;
  readonly since: Instant;
  readonly until: Instant;
}

interface PastOrders extends PastRequest {
  readonly moves: boolean;
  readonly now: Instant;
  readonly seed: number;
  /** Orders younger than this at `until` may still be under way. */
  readonly lifeSeconds: number;
  /** The first step of an open order is within this time after `now`. */
  readonly stayNanos: bigint;
  readonly ways: readonly Way[];
}

/** `draw`, a hash of number and seed, replaces random numbers: the same seed gives the same past. */
const INSERT_PAST = `
with base as (
  select setval('sandbox.order_number',
    (select last_value - case when is_called then 0 else 1 end from sandbox.order_number) + $3::bigint) - $3::bigint as first
), numbered as (
  select first + place as number, place,
    hashint8extended(first + place, $8::bigint) as draw
  from base, generate_series(1, $3::bigint) as place
), dated as (
  select *, ($4::bigint + (place - 1) * (($5::bigint - $4::bigint) / $3::bigint)) / 1000000 * 1000000 as created_at
  from numbered
), aged as (
  select *, ($5::bigint - created_at) / 1000000000 as age_seconds,
    (created_at / 60000000000 + 15 + (draw >> 4 & 7)) * 60000000000 as pickup_time
  from dated
), staged as (
  select *, case
      when (draw >> 8 & 1023) < 60 and age_seconds > 600 then 'cancelled'
      when age_seconds >= $9::bigint then 'delivered'
      when age_seconds >= 1900 then 'arrived_for_delivery'
      when age_seconds >= 900 then 'picked_up'
      when age_seconds >= 600 then 'arrived_for_pickup'
      else 'created' end as status
  from aged
), timed as (
  select *, created_at + 1000000 * (case status
      when 'created' then 0
      when 'arrived_for_pickup' then 600000
      when 'cancelled' then (draw >> 18 & 262143)
      when 'picked_up' then 800000
      when 'arrived_for_delivery' then 1700000
      else 1800000 + (draw >> 18 & 262143) end)::bigint as updated_at
  from staged
), made as (
  insert into sandbox.orders
  select t.number, $1, $2, sandbox.make_reference(t.number, $8::integer), 'OLD-' || t.number, 'seed', t.status,
    w.branch_id, w.zone_code, 'Past', '+31 6 0000 ' || lpad((t.number % 10000)::text, 4, '0'),
    w.street || ' ' || 1 + (t.draw >> 40 & 31), w.city, w.postcode, w.latitude, w.longitude, w.distance_km,
    'asap', 'asap', t.pickup_time, t.pickup_time + 1200000000000,
    case when t.status in ('picked_up', 'arrived_for_delivery', 'delivered') then t.created_at + 800000000000 end,
    case when t.status = 'delivered' then t.updated_at end,
    t.created_at, t.updated_at,
    case when $6::boolean and t.status not in ('cancelled', 'delivered')
      then $7::bigint + (t.draw >> 30 & 1023) * ($10::bigint / 1024) end
  from timed t join (
    select row_number() over () as choice, ways.*
    from jsonb_to_recordset($11::jsonb) as ways (branch_id uuid, zone_code text, street text, city text,
      postcode text, latitude float8, longitude float8, distance_km float8)
  ) w on w.choice = 1 + (t.draw >> 50 & 4095) % $12::bigint
  returning number
)
`;

/** Inserts past orders; returns how many. */
async function insertPastOrders(connection: Connection, past: PastOrders): Promise<number> {
  const { rowCount } = await connection.query(`${INSERT_PAST} select from made`, [
    past.organizationId,
    past.livemode,
    past.count,
    past.since,
    past.until,
    past.moves,
    past.now,
    past.seed,
    past.lifeSeconds,
    past.stayNanos,
    JSON.stringify(past.ways),
    past.ways.length,
  ]);
  return rowCount ?? 0;
}

/** Orders younger than this at the end of the period are still under way. */
const LIFE_SECONDS = 2_400;
/** The fleet takes the first step of an open order within this time at speed 1. */
const STAY_NANOS = 600_000_000_000;
const SPEED_MIN = 0.001;

/**
 * Creates past orders in one statement: finished ones, and those of the last forty minutes in all statuses. No events,
 * because they would have been sent long ago. Returns the count.
 */
export async function seedOrders(state: SandboxState, request: PastRequest): Promise<number> {
  return state.write(async (connection) => {
    const { seed, fleetSpeed } = state.dials;
    return insertPastOrders(connection, {
      ...request,
      moves: request.livemode && fleetSpeed > 0,
      now: state.clock.now(),
      seed,
      lifeSeconds: LIFE_SECONDS,
      stayNanos: BigInt(Math.round(STAY_NANOS / Math.max(fleetSpeed, SPEED_MIN))),
      ways: listWays(state, request.organizationId),
    });
  });
}

/** Every street that the gazetteer knows near a branch that takes orders. */
function listWays(state: SandboxState, organizationId: string): Way[] {
  return state.directory
    .branchesOf(organizationId)
    .filter(canTakeOrders)
    .flatMap((branch) =>
      GAZETTEER.filter((street) => street.city === branch.address.city).map((street) => ({
        branch_id: branch.branchId,
        zone_code: branch.connections.find((connection) => connection.isPrimary)?.zoneCode ?? "",
        street: street.street,
        city: street.city,
        postcode: street.postcode,
        latitude: street.latitude,
        longitude: street.longitude,
        distance_km: measureDistance(branch.coordinates ?? street, street),
      })),
    );
}

/** The last thirty days up to now. */
export function defaultPast(now: Instant): { since: Instant; until: Instant } {
  return { since: addSeconds(now, -30 * 86_400), until: now };
}
