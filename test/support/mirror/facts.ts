import type { Pool } from "../../../src/database/database.ts";
import { advanceFacts, beginFacts } from "../../../src/poll/ledger/orderFacts.sql.ts";
import type { FactsBatch } from "../../../src/poll/ledger/orderFacts.sql.ts";
import { emptying } from "./emptying.ts";

/** Updates the facts of the source `live` in batches of `limit` until nothing is left to read, as its leader does. */
export async function keepFacts(
  pool: Pool,
  { limit = 2_000 } = {},
): Promise<Pick<FactsBatch, "written" | "done">> {
  const pass = await beginFacts(pool, "live");
  if (pass.done) return { written: false, done: true };
  let { fence } = pass;
  for (let step = BigInt(pass.step); ; step += 1n) {
    const batch = await advanceFacts(pool, "live", { ...pass, step: String(step), fence, limit });
    if (batch.done || !batch.written || (batch.read === 0 && batch.fence === fence)) return batch;
    fence = batch.fence;
  }
}

/** Computes all rows of the source `live` again, from the history alone. */
export async function rebuildFacts(pool: Pool): Promise<void> {
  await pool.query(emptying("order_facts facts_daily facts_progress"));
  await keepFacts(pool);
}
