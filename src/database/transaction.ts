import type pg from "pg";
import type { Pool, Queryable } from "./database.ts";
import { sqlState } from "./databaseErrors.ts";

const QUERY_CANCELED = "57014";

/**
 * Runs `work` on one connection of the pool. A statement that is refused still holds its locks for a moment after its
 * error has arrived: on another connection, the next statement would find them. Here it waits until they are released.
 * Rejects with the error of `work` or of the database.
 */
export async function onConnection<Result>(
  pool: Pool,
  work: (client: Queryable) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect();
  let failure: Error | undefined;
  try {
    return await work(client);
  } catch (error) {
    failure = error instanceof Error ? error : new Error("the work on a connection failed", { cause: error });
    throw error;
  } finally {
    // After a failure the connection may still be busy, so it is destroyed together with its transaction.
    client.release(failure);
  }
}

/**
 * Runs `work` in a new transaction and commits it; if anything fails, nothing is written. If the commit itself fails,
 * its outcome is unknown. Rejects with the error of `work` or of the database.
 */
export function inTransaction<Result>(
  pool: Pool,
  work: (client: Queryable) => Promise<Result>,
): Promise<Result> {
  return onConnection(pool, async (client) => {
    await client.query("begin");
    const result = await work(client);
    await client.query("commit");
    return result;
  });
}

/** Runs `work` read-only; undefined if a statement takes longer than `milliseconds`. Rejects with other errors. */
export async function readWithin<Result>(
  pool: Pool,
  milliseconds: number,
  work: (client: Queryable) => Promise<Result>,
): Promise<Result | undefined> {
  try {
    return await inTransaction(pool, async (client) => {
      await client.query(`set transaction read only; set local statement_timeout = ${milliseconds}`);
      return work(client);
    });
  } catch (error) {
    if (sqlState(error) === QUERY_CANCELED) return undefined;
    throw error;
  }
}

/**
 * The rows of a query as arrays, at most `batchRows` at a time, within a transaction: one such reading at a time per
 * connection. Of no rows there is one empty batch, which has their fields.
 */
export async function* readInBatches<Row extends unknown[]>(
  client: Queryable,
  { text, values }: { readonly text: string; readonly values: readonly unknown[] },
  batchRows: number,
): AsyncGenerator<pg.QueryArrayResult<Row>> {
  await client.query(`declare batches no scroll cursor for ${text}`, [...values]);
  const fetch = { text: `fetch ${batchRows} from batches`, rowMode: "array" } as const;
  let batch = await client.query<Row>(fetch);
  yield batch;
  while (batch.rows.length === batchRows) {
    batch = await client.query<Row>(fetch);
    if (batch.rows.length > 0) yield batch;
  }
  await client.query("close batches");
}
