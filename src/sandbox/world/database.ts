import pg from "pg";
import { UnavailableError } from "../../domain/errors.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";

export type Pool = pg.Pool;
/** What a statement may run on: the pool, or the one connection of a transaction. */
export type Connection = Pick<pg.ClientBase, "query">;

/** One of them only holds the world. */
const CONNECTIONS_MAX = 9;
const INT8_OID = 20;

/** A pool of the sandbox's own: it shares no code with the product that it tests. `bigint` columns come as bigint. */
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

/**
 * All changes go one after the other through here. So the sequences count in the order in which requests came,
 * two requests never race for an externalOrderId, and a seeded run repeats exactly.
 */
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
  // The statement under way rejects as well; but an error event without a listener would end the process.
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

/** Any number will do, as long as nothing else in the database locks it. */
const LOCK_KEY = 7_405_001;
const LOCK_ATTEMPTS = 20;
const LOCK_PAUSE_MS = 100;

/**
 * Makes this process the only sandbox on its database, as it holds the world partly in memory. Resolves to a
 * function that lets go, safe to call twice; throws UnavailableError when the database cannot be reached or another
 * sandbox runs there. One that was killed has let go as soon as the server has noticed.
 */
export async function holdWorld(pool: Pool, clock: Clock): Promise<() => void> {
  const client = await connect(pool);
  client.on("error", ignore);
  let held = true;
  const letGo = () => {
    // Closed, not handed back: the lock belongs to the connection.
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
  throw new UnavailableError("Another sandbox runs on this database.", {
    fix: "Stop it, or give this one a database of its own.",
  });
}

async function connect(pool: Pool): Promise<pg.PoolClient> {
  try {
    return await pool.connect();
  } catch (error) {
    throw new UnavailableError("The sandbox cannot reach its database.", {
      cause: error,
      fix: "Check that the server behind DATABASE_URL is up and lets this user in.",
    });
  }
}
