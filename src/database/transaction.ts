import type { Pool, Queryable } from "./database.ts";

/**
 * Runs `work` in a new transaction and commits it; if anything fails, nothing is written. If the commit itself fails,
 * its outcome is unknown. Rejects with the error of `work` or of the database.
 */
export async function inTransaction<Result>(
  pool: Pool,
  work: (client: Queryable) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect();
  let failure: Error | undefined;
  try {
    await client.query("begin");
    const result = await work(client);
    await client.query("commit");
    return result;
  } catch (error) {
    failure = error instanceof Error ? error : new Error("the transaction failed", { cause: error });
    throw error;
  } finally {
    // A connection that failed inside a transaction may still be busy, so it is destroyed together with its
    // transaction.
    client.release(failure);
  }
}

/** Runs `work` inside a transaction; if it fails, only its own writes are undone. Rejects with its error. */
export async function atSavepoint<Result>(client: Queryable, work: () => Promise<Result>): Promise<Result> {
  await client.query("savepoint work");
  try {
    const result = await work();
    await client.query("release savepoint work");
    return result;
  } catch (error) {
    // On a broken connection this fails too; the first error gives the reason.
    await client.query("rollback to savepoint work").catch(() => undefined);
    throw error;
  }
}

/** Runs `work` inside a transaction and then undoes its writes. Rejects with its error. */
export async function undone<Result>(client: Queryable, work: () => Promise<Result>): Promise<Result> {
  await client.query("savepoint rehearsal");
  const result = await work();
  await client.query("rollback to savepoint rehearsal");
  return result;
}
