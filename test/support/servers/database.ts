import { randomUUID } from "node:crypto";
import pg from "pg";
import { inject } from "vitest";
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
