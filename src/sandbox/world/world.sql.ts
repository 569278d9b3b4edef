import type { Instant } from "../../domain/order/instant.ts";
import type { Connection } from "./database.ts";
import { ORDER_INDEXES, SCHEMA_SQL, SCHEMA_VERSION } from "./schema.ts";
import type { SeedBranch, SeedFleet, SeedOrganization, SeedZone } from "../seed/seedWorld.ts";
import { seedBranches, SEED_FLEETS, SEED_ORGANIZATIONS, SEED_ZONES } from "../seed/seedWorld.ts";

export interface World {
  readonly seed: number;
  /** The time of the virtual clock; null if the world never had one. */
  readonly clockNow: Instant | null;
  /** The speed at which the fleet's next steps were planned; null in a new world. */
  readonly fleetSpeed: number | null;
}

/** The world in the database, or undefined if there is none that this version can read. */
export async function readWorld(connection: Connection): Promise<World | undefined> {
  const found = await connection.query<{ exists: boolean }>(
    `select to_regclass('sandbox.world') is not null as exists`,
  );
  if (!found.rows[0]?.exists) return undefined;
  const versions = await connection.query<{ version: number }>(
    `select schema_version as version from sandbox.world`,
  );
  if (versions.rows[0]?.version !== SCHEMA_VERSION) return undefined;
  const { rows } = await connection.query<World>(
    `select seed, clock_now as "clockNow", fleet_speed as "fleetSpeed" from sandbox.world`,
  );
  return rows[0];
}

/** Replaces the schema's content with a new world from `seed`, in the caller's transaction. */
export async function createWorld(connection: Connection, seed: number): Promise<void> {
  await connection.query("set local client_min_messages = warning");
  await connection.query("drop schema if exists sandbox cascade");
  await connection.query(`${SCHEMA_SQL}; ${Object.values(ORDER_INDEXES).join("; ")}`);
  await connection.query(`insert into sandbox.world (schema_version, seed) values ($1, $2)`, [
    SCHEMA_VERSION,
    seed,
  ]);
  await insertOrganizations(connection, SEED_ORGANIZATIONS);
  await insertZones(connection, { fleets: SEED_FLEETS, zones: SEED_ZONES });
  await insertBranches(connection, seedBranches(seed));
}

/** Stores the virtual clock's time, so that a restart resumes there. */
export async function saveClock(connection: Connection, now: Instant): Promise<void> {
  await connection.query(`update sandbox.world set clock_now = $1`, [now]);
}

/** Stores the speed at which the fleet's next steps are planned. */
export async function saveFleetSpeed(connection: Connection, speed: number): Promise<void> {
  await connection.query(`update sandbox.world set fleet_speed = $1`, [speed]);
}

export async function insertOrganizations(
  connection: Connection,
  organizations: readonly SeedOrganization[],
): Promise<void> {
  await connection.query(
    `insert into sandbox.organizations (organization_id, name, plan, subscription)
     select "organizationId", name, plan, 'active'
     from jsonb_to_recordset($1) as o ("organizationId" text, name text, plan text)`,
    [JSON.stringify(organizations)],
  );
  const keys = organizations.flatMap(({ organizationId, keys: own }) =>
    own.map((key) => ({ organizationId, ...key })),
  );
  await connection.query(
    `insert into sandbox.api_keys (api_key, organization_id, livemode)
     select "apiKey", "organizationId", livemode
     from jsonb_to_recordset($1) as k ("apiKey" text, "organizationId" text, livemode boolean)`,
    [JSON.stringify(keys)],
  );
}

/** Adds zones, and those of their fleets that do not exist yet. */
export async function insertZones(
  connection: Connection,
  { fleets, zones }: { fleets: readonly SeedFleet[]; zones: readonly SeedZone[] },
): Promise<void> {
  await connection.query(
    `insert into sandbox.fleets (fleet_id, name, owner_organization_id)
     select "fleetId", name, owner from jsonb_to_recordset($1) as f ("fleetId" text, name text, owner text)
     on conflict do nothing`,
    [JSON.stringify(fleets)],
  );
  await connection.query(
    `insert into sandbox.zones (zone_code, name, fleet_id, shifts)
     select code, name, "fleetId", shifts
     from jsonb_to_recordset($1) as z (code text, name text, "fleetId" text, shifts jsonb)`,
    [JSON.stringify(zones)],
  );
}

/** Adds branches at the end of the list. */
export async function insertBranches(connection: Connection, branches: readonly SeedBranch[]): Promise<void> {
  const rows = branches.map(({ address, coordinates, ...branch }, position) => ({
    ...branch,
    ...address,
    ...coordinates,
    position,
  }));
  await connection.query(
    `insert into sandbox.branches
       (branch_id, organization_id, position, reference, name, street, city, postcode, latitude, longitude, closed)
     select "branchId", "organizationId", (select count(*) from sandbox.branches) + position, reference, name, street, city, postcode, latitude, longitude, closed
     from jsonb_to_recordset($1) as b ("branchId" uuid, "organizationId" text, position integer, reference text,
       name text, street text, city text, postcode text, latitude float8, longitude float8, closed boolean)`,
    [JSON.stringify(rows)],
  );
  const connections = branches.flatMap(({ branchId, zones, primary }) =>
    zones.map((code, position) => ({ branchId, code, position, isPrimary: code === primary })),
  );
  await connection.query(
    `insert into sandbox.connections (branch_id, zone_code, position, is_primary)
     select "branchId", code, position, "isPrimary"
     from jsonb_to_recordset($1) as c ("branchId" uuid, code text, position integer, "isPrimary" boolean)`,
    [JSON.stringify(connections)],
  );
}
