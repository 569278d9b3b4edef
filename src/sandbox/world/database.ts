import pg from "pg";
import { UnavailableError } from "../../domain/errors.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";

export type Pool = pg.Pool;
/** What a statement runs on: the pool, or the connection of a transaction. */
export type Connection = Pick<pg.ClientBase, "query">;

/** One of them only holds the lock on the world. */
const CONNECTIONS_MAX = 9;
const INT8_OID = 20;

/** It shares no code with the product that it tests. `bigint` columns are returned as bigint. */
export function makeSandboxPool(databaseUrl: string): Pool {
  const types = new pg.TypeOverrides();
  types.setTypeParser(INT8_OID, BigInt);
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    application_name: "order-mirror sandbox",
    max: CONNECTIONS_MAX,
    types,
  });
  // An idle connection that breaks is replaced at the next use; without a listener it would end the process.
  pool.on("error", () => undefined);
  return pool;
}

/** Runs one piece of work in a transaction; see makeWriter. */
export type Write = <Result>(work: (connection: Connection) => Promise<Result>) => Promise<Result>;

/** Serialises all changes: no two requests race for an externalOrderId, and a seeded run repeats exactly. */
export function makeWriter(pool: Pool): Write {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(() => inTransaction(pool, work));
    last = result.catch(() => undefined);
    return result;
  };
}

async function inTransaction<Result>(
  pool: Pool,
  work: (connection: Connection) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect();
  // The running statement rejects as well, but an error event without a listener would end the process.
  client.on("error", ignore);
  let broken: Error | undefined;
  try {
    await client.query("begin");
    const result = await work(client);
    await client.query("commit");
    return result;
  } catch (error) {
    broken = await client.query("rollback").then(
      () => undefined,
      (reason: Error) => reason,
    );
    throw error;
  } finally {
    client.off("error", ignore);
    client.release(broken);
  }
}

const ignore = () => undefined;

/** Any number that nothing else in the database locks. */
const LOCK_KEY = 7_405_001;
const LOCK_ATTEMPTS = 20;
const LOCK_PAUSE_MS = 100;

/**
 * Locks the database for this sandbox, which holds parts of the world in memory. Resolves to a function that releases
 * the lock and may be called twice. Throws UnavailableError if the database cannot be reached or another sandbox uses
 * it. The lock of a killed sandbox ends as soon as the server notices.
 */
export async function holdWorld(pool: Pool, clock: Clock): Promise<() => void> {
  const client = await connect(pool);
  client.on("error", ignore);
  let held = true;
  const letGo = () => {
    // Closed, not returned to the pool: the lock belongs to the connection.
    if (held) client.release(true);
    held = false;
  };
  for (let attempt = 1; attempt <= LOCK_ATTEMPTS; attempt += 1) {
    const { rows } = await client.query<{ held: boolean }>("select pg_try_advisory_lock($1) as held", [
      LOCK_KEY,
    ]);
    if (rows[0]?.held) return letGo;
    await clock.sleep(LOCK_PAUSE_MS);
  }
  letGo();
  throw new UnavailableError("Another sandbox uses this database.", {
    fix: "Stop it, or give this one its own database.",
  });
}

async function connect(pool: Pool): Promise<pg.PoolClient> {
  try {
    return await pool.connect();
  } catch (error) {
    throw new UnavailableError("The sandbox cannot reach its database.", {
      cause: error,
      fix: "Check that the server in DATABASE_URL is up and accepts this user.",
    });
  }
}
