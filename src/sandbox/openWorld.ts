import { UnavailableError } from "../domain/errors.ts";
import type { Pool, Write } from "./database.ts";
import { releaseDeliveries } from "./deliverySql.ts";
import { createWorld, readWorld } from "./worldSql.ts";
import type { World } from "./worldSql.ts";

const SEED_DEFAULT = 1;

/**
 * Opens the world that the database holds, or makes one. Without `seed` an existing world is kept as it is; with
 * another seed than its own it is made anew. Throws UnavailableError when the database cannot be reached.
 */
export async function openWorld(pool: Pool, write: Write, seed: number | undefined): Promise<World> {
  await assertReachable(pool);
  const known = await readWorld(pool);
  if (known && (seed === undefined || seed === known.seed)) {
    await releaseDeliveries(pool);
    return known;
  }
  const fresh = seed ?? SEED_DEFAULT;
  await write((connection) => createWorld(connection, fresh));
  return { seed: fresh, clockNow: null, fleetSpeed: null };
}

async function assertReachable(pool: Pool): Promise<void> {
  try {
    await pool.query("select 1");
  } catch (error) {
    throw new UnavailableError("The sandbox cannot reach its database.", {
      cause: error,
      fix: "Check that the server behind DATABASE_URL is up and lets this user in.",
    });
  }
}
