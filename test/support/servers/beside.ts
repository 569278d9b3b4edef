import type pg from "pg";
import { expect } from "vitest";

/** Resolves once so many statements in the pool's database wait for a lock. */
export async function untilWaiting(pool: Pick<pg.Pool, "query">, statements = 1): Promise<void> {
  const countWaiting = async () =>
    (
      await pool.query(
        "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      )
    ).rowCount;
  await expect.poll(countWaiting, { timeout: 60_000 }).toBe(statements);
}

/** Works in a transaction that is committed once a statement that was begun meanwhile waits for it. */
export async function beside<Result>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<unknown>,
  meanwhile: () => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    await work(client);
    const commit = untilWaiting(pool).then(() => client.query("commit"));
    // Its rejection may come before the commit's answer.
    const [result] = await Promise.all([meanwhile(), commit]);
    return result;
  } finally {
    // A test that failed has left it open.
    client.release(true);
  }
}
