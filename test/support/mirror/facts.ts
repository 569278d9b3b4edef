import { randomUUID } from "node:crypto";
import type { Pool } from "../../../src/database/database.ts";
import { acquireLease, releaseLease } from "../../../src/database/leases.sql.ts";
import { keepFacts as keepSome } from "../../../src/poll/orderFacts.sql.ts";
import { emptying } from "./emptying.ts";

/** Updates the facts of the source `live` in batches of `limit` until nothing is left to read, as its leader does. */
export async function keepFacts(pool: Pool, { limit = 20_000 } = {}): Promise<void> {
  const lease = await acquireLease(pool, { name: randomUUID(), holder: "facts", ttlMs: 600_000 });
  if (lease === undefined) throw new Error("the lease is free");
  while (await keepSome(pool, lease, { sourceId: "live", limit }));
  await releaseLease(pool, lease);
}

/** Computes all rows of the source `live` again, from the history alone. */
export async function rebuildFacts(pool: Pool): Promise<void> {
  await pool.query(emptying("order_facts"));
  await pool.query("update mirror.poll_state set facts_position = null");
  await keepFacts(pool);
}
