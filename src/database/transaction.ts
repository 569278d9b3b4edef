import type { Pool, Queryable } from "./database.ts";

/**
 * Runs `work` in a transaction of its own and commits it; when anything fails, nothing is written. The outcome of a
 * commit that fails is not known. Rejects with the error of `work` or of the database.
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
    // A connection that failed inside a transaction goes, and its transaction with it: it may still be busy.
    client.release(failure);
  }
}

/** Runs `work` inside a transaction so that its failure undoes what it wrote and no more. Rejects with its error. */
export async function atSavepoint<Result>(client: Queryable, work: () => Promise<Result>): Promise<Result> {
  await client.query("savepoint work");
  try {
    const result = await work();
    await client.query("release savepoint work");
    return result;
  } catch (error) {
    // On a connection that is gone this fails as well; the first error says why.
    await client.query("rollback to savepoint work").catch(() => undefined);
    throw error;
  }
}

/** Runs `work` inside a transaction and takes back what it wrote. Rejects with its error. */
export async function undone<Result>(client: Queryable, work: () => Promise<Result>): Promise<Result> {
  await client.query("savepoint rehearsal");
  const result = await work();
  await client.query("rollback to savepoint rehearsal");
  return result;
}
