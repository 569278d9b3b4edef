import type { Pool, Write } from "./database.ts";
import { releaseDeliveries } from "../events/delivery.sql.ts";
import { createWorld, readWorld } from "./world.sql.ts";
import type { World } from "./world.sql.ts";

const SEED_DEFAULT = 1;

/**
 * Opens the world in the database, or creates one. Without `seed` an existing world is kept; a different seed rebuilds
 * it.
 */
export async function openWorld(pool: Pool, write: Write, seed: number | undefined): Promise<World> {
  const known = await readWorld(pool);
  if (known && (seed === undefined || seed === known.seed)) {
    await releaseDeliveries(pool);
    return known;
  }
  const fresh = seed ?? SEED_DEFAULT;
  await write((connection) => createWorld(connection, fresh));
  return { seed: fresh, clockNow: null, fleetSpeed: null };
}
