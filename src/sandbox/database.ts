import pg from "pg";

export type Pool = pg.Pool;
/** What a statement may run on: the pool, or the one connection of a transaction. */
export type Connection = Pick<pg.ClientBase, "query">;

const CONNECTIONS_MAX = 8;
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
  try {
    await client.query("begin");
    const result = await work(client);
    await client.query("commit");
    client.release();
    return result;
  } catch (error) {
    const broken = await client.query("rollback").then(
      () => undefined,
      (reason: Error) => reason,
    );
    client.release(broken);
    throw error;
  }
}
