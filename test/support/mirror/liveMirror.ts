import { afterAll } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { makeTestDatabase } from "../servers/database.ts";
import { makeLiveApply } from "./liveApply.ts";
import { addSource } from "./orders.ts";

/** A migrated database for this test file with the source `live`, closed after the file's tests. */
export async function openLiveMirror({ statementTimeoutMs = 20_000 }: { statementTimeoutMs?: number } = {}) {
  const database = await makeTestDatabase();
  const pool = makePool({ url: database.url, purpose: "test", max: 4, statementTimeoutMs });
  afterAll(async () => {
    await pool.end();
    await database.drop();
  });
  await addSource(pool, "live");
  return { database, pool, apply: makeLiveApply(pool) };
}
