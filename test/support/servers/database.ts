import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, inject } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { createDatabase, runOnServer, withDatabase } from "./createDatabase.ts";

/** Migrated, and nobody is connected to it, so that it can be cloned. */
export const TEMPLATE_DATABASE = "order_mirror_template";

/** The test server of this worker: its database `postgres`, as superuser. */
export function findTestServer(): string {
  const urls = inject("postgresUrls");
  const url = urls[Number(process.env["VITEST_POOL_ID"]) - 1];
  if (url === undefined) throw new TypeError("there is no test server for this worker");
  return url;
}

export interface TestDatabase {
  readonly url: string;
  /** A pool for the test's own queries and setup; ended by `drop`. */
  readonly pool: pg.Pool;
  drop(): Promise<void>;
}

/** A migrated database for this test file, cloned from the template in a fraction of a second. */
export async function makeTestDatabase(): Promise<TestDatabase> {
  const serverUrl = findTestServer();
  const name = `test_${randomUUID().replaceAll("-", "")}`;
  await createDatabase(serverUrl, name, TEMPLATE_DATABASE);
  const url = withDatabase(serverUrl, name);
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  // Backends that a test kills on purpose must not end the test process.
  pool.on("error", () => undefined);
  const drop = async () => {
    await pool.end();
    await runOnServer(serverUrl, `drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
  };
  return { url, pool, drop };
}

/** The same for the top level of a test file, with a pool as the program opens it; both end after the file's tests. */
export async function openTestDatabase({ purpose = "test", max = 4, statementTimeoutMs = 10_000 } = {}) {
  const database = await makeTestDatabase();
  const pool = makePool({ url: database.url, purpose, max, statementTimeoutMs });
  afterAll(async () => {
    await pool.end();
    await database.drop();
  });
  return { database, pool };
}
