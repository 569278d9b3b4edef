import { addSeconds } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Connection } from "../world/database.ts";
import { GAZETTEER } from "../places/gazetteer.ts";
import { ORDER_INDEXES } from "../world/schema.ts";
import { insertPastOrders } from "./seed.sql.ts";
import type { PastRequest, Way } from "./seed.sql.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { measureDistance } from "../fleet/schedule.ts";
import { canTakeOrders } from "../fleet/traffic.ts";

/** From this count on, rebuilding the indexes is faster than updating them row by row. */
const REINDEX_COUNT_MIN = 50_000;
/** Orders younger than this at the end of the period are still under way. */
const LIFE_SECONDS = 2_400;
/** The fleet takes the first step of an open order within this time at speed 1. */
const STAY_NANOS = 600_000_000_000;
const SPEED_MIN = 0.001;

/**
 * Creates past orders in one statement: finished ones, and those of the last forty minutes in all statuses. No events,
 * because they would have been sent long ago; charges as for any live order. Returns the count.
 */
export async function seedOrders(state: SandboxState, request: PastRequest): Promise<number> {
  return state.write(async (connection) => {
    const reindexes = request.count >= REINDEX_COUNT_MIN;
    if (reindexes) await dropIndexes(connection);
    const { seed, fleetSpeed } = state.dials;
    const made = await insertPastOrders(connection, {
      ...request,
      moves: request.livemode && fleetSpeed > 0,
      now: state.clock.now(),
      seed,
      lifeSeconds: LIFE_SECONDS,
      stayNanos: BigInt(Math.round(STAY_NANOS / Math.max(fleetSpeed, SPEED_MIN))),
      ways: listWays(state, request.organizationId),
    });
    if (reindexes) await createIndexes(connection);
    return made;
  });
}

async function dropIndexes(connection: Connection): Promise<void> {
  for (const name of Object.keys(ORDER_INDEXES)) await connection.query(`drop index sandbox.${name}`);
}

async function createIndexes(connection: Connection): Promise<void> {
  await connection.query("set local maintenance_work_mem = '256MB'");
  for (const statement of Object.values(ORDER_INDEXES)) await connection.query(statement);
  await connection.query("analyze sandbox.orders");
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
