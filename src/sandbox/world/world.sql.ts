import type { Instant } from "../../domain/order/instant.ts";
import type { Connection } from "./database.ts";
import { ORDER_INDEXES, SCHEMA_SQL, SCHEMA_VERSION } from "./schema.ts";
import type { DirectoryContent } from "./directory.ts";
import { seedDirectory } from "../seed/seedWorld.ts";

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
  await connection.query(`insert into sandbox.world (schema_version, seed, directory) values ($1, $2, $3)`, [
    SCHEMA_VERSION,
    seed,
    JSON.stringify(seedDirectory(seed)),
  ]);
}

/** Stores the virtual clock's time, so that a restart resumes there. */
export async function saveClock(connection: Connection, now: Instant): Promise<void> {
  await connection.query(`update sandbox.world set clock_now = $1`, [now]);
}

/** Stores the speed at which the fleet's next steps are planned. */
export async function saveFleetSpeed(connection: Connection, speed: number): Promise<void> {
  await connection.query(`update sandbox.world set fleet_speed = $1`, [speed]);
}

export async function readContent(connection: Connection): Promise<DirectoryContent> {
  const { rows } = await connection.query<{ directory: DirectoryContent }>(
    "select directory from sandbox.world",
  );
  const [world] = rows;
  if (world === undefined) throw new TypeError("a world has a directory");
  return world.directory;
}

export async function saveContent(connection: Connection, content: DirectoryContent): Promise<void> {
  await connection.query("update sandbox.world set directory = $1", [JSON.stringify(content)]);
}
