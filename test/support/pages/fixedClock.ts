import { randomUUID } from "node:crypto";
import pg from "pg";
import { vi } from "vitest";
import { migrate } from "../../../src/database/migrations.ts";
import { migrateQueue } from "../../../src/queue/postgresBackend.ts";
import { createDatabase, runOnServer, withDatabase } from "../servers/createDatabase.ts";
import { findTestServer } from "../servers/database.ts";

/**
 * A migrated database and this process, with one clock that a test sets: for what must look the same at every run.
 *
 * The database's own clock cannot be set. But names without a schema are looked up along the search path, so functions
 * of the same names in an earlier schema take its place, also in what the migrations create.
 */
export async function makeFixedClockDatabase() {
  const serverUrl = findTestServer();
  const name = `test_${randomUUID().replaceAll("-", "")}`;
  await createDatabase(serverUrl, name);
  const url = withDatabase(serverUrl, name);
  await runOnServer(
    url,
    `create schema fixed;
     create table fixed.clock (at timestamptz not null);
     insert into fixed.clock values (now());
     create function fixed.clock_timestamp() returns timestamptz language sql volatile as 'select at from fixed.clock';
     create function fixed.now() returns timestamptz language sql stable as 'select at from fixed.clock';
     alter database ${pg.escapeIdentifier(name)} set search_path = fixed, pg_catalog, public`,
  );
  await migrate(url);
  await migrateQueue(url);
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  pool.on("error", () => undefined);
  vi.useFakeTimers({ toFake: ["Date"] });
  return {
    url,
    pool,
    /** Sets both clocks to this instant. */
    async setClock(instant: string) {
      vi.setSystemTime(instant);
      await pool.query("update fixed.clock set at = $1", [instant]);
    },
    async drop() {
      vi.useRealTimers();
      await pool.end();
      await runOnServer(serverUrl, `drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
    },
  };
}
