import { afterAll } from "vitest";
import { makePool, type Pool } from "../../../src/database/database.ts";
import { openApplyPool } from "../../../src/mirror/role.ts";
import { makeTestDatabase } from "../servers/database.ts";
import { makeLiveApply, makeObserver } from "./liveApply.ts";
import { addSource } from "./orders.ts";

/** A migrated database with the source `live`; closed after the file's tests, or at the end of one with `onTestFinished`. */
export function openLiveMirror({
  max = 4,
  statementTimeoutMs = 20_000,
  ends = afterAll as (close: () => Promise<void>) => void,
} = {}) {
  const patience = { statementTimeoutMs, connectTimeoutMs: 60_000 };
  return open((url) => makePool({ url, purpose: "test", max, ...patience }), ends);
}

/** The same, with the pool that the worker and the poller have. */
export function openAppliedMirror() {
  return open((databaseUrl) => {
    const config = { databaseUrl, databaseDirectUrl: null };
    return openApplyPool({ config, databaseUrl, shutdown: { onShutdown: () => undefined } });
  });
}

async function open(openPool: (url: string) => Pool, ends: (close: () => Promise<void>) => void = afterAll) {
  const database = await makeTestDatabase();
  const pool = openPool(database.url);
  ends(async () => {
    await pool.end();
    await database.drop();
  });
  await addSource(pool, "live");
  const apply = makeLiveApply(pool);
  /** The rows that a statement returns. */
  const read = async <Row extends object = Record<string, unknown>>(text: string, values: unknown[] = []) =>
    (await pool.query<Row & Record<string, unknown>>(text, values)).rows as Row[];
  /** Of the orders that the mirror has, gone or not, sorted. */
  const listReferences = async () =>
    (await read("select reference from mirror.orders order by 1")).map(({ reference }) => String(reference));
  return { database, pool, apply, read, listReferences, ...makeObserver(pool, apply) };
}
