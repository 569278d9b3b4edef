import pg from "pg";
import { randomUUID } from "node:crypto";
import { afterAll, expect, inject, onTestFinished } from "vitest";
import { makePool, type Pool, type Queryable, withClient } from "../../../src/database/database.ts";

/** Copies the template's files, which takes half the processor time of copying them block by block. */
export async function createDatabase(serverUrl: string, name: string, template = "template0"): Promise<void> {
  const from = pg.escapeIdentifier(template);
  await runOnServer(
    serverUrl,
    `create database ${pg.escapeIdentifier(name)} with template = ${from} strategy = file_copy`,
  );
}

/** `serverUrl` with another database name. */
export function withDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** Over a connection of its own. Resolves with the rows. */
export async function runOnServer(serverUrl: string, sql: string): Promise<Record<string, unknown>[]> {
  return withClient(serverUrl, async (client) => (await client.query<Record<string, unknown>>(sql)).rows);
}

/** Migrated, and nobody is connected to it, so that it can be cloned. */
export const TEMPLATE_DATABASE = "order_mirror_template";

/** The test server of this worker: its database `postgres`, as superuser. */
export function findTestServer(): string {
  const urls = inject("postgresUrls");
  const url = urls[Number(process.env["VITEST_POOL_ID"]) - 1];
  if (url === undefined) throw new TypeError("there is no test server for this worker");
  return url;
}

export type TestDatabase = Awaited<ReturnType<typeof makeTestDatabase>>;

/** A migrated database for this test file, cloned from the template in a fraction of a second. */
export async function makeTestDatabase() {
  const serverUrl = findTestServer();
  const name = `test_${randomUUID().replaceAll("-", "")}`;
  await createDatabase(serverUrl, name, TEMPLATE_DATABASE);
  const url = withDatabase(serverUrl, name);
  /** For the test's own queries and setup; ended by `drop`. */
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  // Backends that a test kills on purpose must not end the test process.
  pool.on("error", () => undefined);
  const drop = async () => {
    await pool.end();
    await runOnServer(serverUrl, `drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
  };
  return { url, pool, drop };
}

/** An empty one on the same server, for one test. */
export async function makeEmptyDatabase() {
  const serverUrl = findTestServer();
  const name = `empty_${randomUUID().replaceAll("-", "")}`;
  await createDatabase(serverUrl, name);
  onTestFinished(async () => void (await runOnServer(serverUrl, `drop database ${name} with (force)`)));
  const url = withDatabase(serverUrl, name);
  return { name, url, query: (sql: string) => runOnServer(url, sql) };
}

/** A migrated one with a pool as the program opens it; both end after the file's tests, or those of one with `onTestFinished`. */
export async function openTestDatabase({
  purpose = "test",
  max = 4,
  statementTimeoutMs = 10_000,
  ends = afterAll as (close: () => Promise<void>) => void,
} = {}) {
  const database = await makeTestDatabase();
  // A busy machine takes longer for a connection than the product waits.
  const connectTimeoutMs = 60_000;
  const pool = makePool({ url: database.url, purpose, max, statementTimeoutMs, connectTimeoutMs });
  ends(async () => {
    await pool.end();
    await database.drop();
  });
  return { database, pool };
}

/**
 * A pool with this one connection, which its users share: they can work in a transaction that the test ends. It may also be
 * one that answers as a test wants, when the failure or the count of statements is what matters.
 */
export function asPool(connection: { readonly query: (...given: never[]) => unknown }): Pool {
  const query = connection.query.bind(connection) as Queryable["query"];
  const nothing = () => undefined;
  const client = { query, on: nothing, off: nothing, release: nothing };
  return { query, connect: () => Promise.resolve(client) } as unknown as Pool;
}

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
