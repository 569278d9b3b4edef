import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import knex from "knex";
import type { Knex } from "knex";

/** The folder `migrations` beside `src` and `dist`. */
const DIRECTORY = fileURLToPath(new URL("../../migrations", import.meta.url));
const NAME = /^\d{4}_[a-z0-9_]+\.sql$/;

/**
 * Numbered .sql files as knex migrations, forward only.
 *
 * knex' own loader records the file's extension, so a database migrated from .ts in development refuses .js in
 * production; here the recorded name has none.
 */
const source: Knex.MigrationSource<string> = {
  async getMigrations() {
    const names = await readdir(DIRECTORY);
    return names.filter((name) => NAME.test(name)).sort();
  },
  getMigrationName: (file) => path.basename(file, ".sql"),
  async getMigration(file) {
    const sql = await readFile(path.join(DIRECTORY, file), "utf8");
    return {
      up: (connection) => connection.raw(escapeBindings(sql)),
      down: () => Promise.reject(new Error("migrations only go forward")),
    };
  },
};

/** Any number will do, as long as nothing else in the database locks it. */
const LOCK_KEY = 7_405_002;

const CONFIG: Knex.MigratorConfig = {
  migrationSource: source,
  tableName: "order_mirror_migrations",
  // A database may be ahead of this release, while an older one still runs beside the newer or after a roll-back.
  disableMigrationsListValidation: true,
};

/** Brings the database to the newest schema; returns the names of the migrations that it ran, none if current. */
export async function migrate(databaseUrl: string): Promise<string[]> {
  return withKnex(databaseUrl, async (connection) => {
    // The session's lock keeps a second process waiting. So knex' own, which outlives a process that is killed, is
    // nobody's now.
    await connection.raw("select pg_advisory_lock(?)", [LOCK_KEY]);
    await connection.migrate.forceFreeMigrationsLock(CONFIG);
    const [, ran] = (await connection.migrate.latest(CONFIG)) as [number, string[]];
    return ran;
  });
}

/** Names of the migrations that `databaseUrl` still lacks, oldest first; empty when it is current. */
export async function pendingMigrations(databaseUrl: string): Promise<string[]> {
  return withKnex(databaseUrl, async (connection) => {
    const [, pending] = (await connection.migrate.list(CONFIG)) as [unknown[], string[]];
    return pending.map((file) => path.basename(file, ".sql"));
  });
}

async function withKnex<Result>(
  databaseUrl: string,
  use: (connection: Knex) => Promise<Result>,
): Promise<Result> {
  const connection = knex({ client: "pg", connection: databaseUrl, pool: { min: 0, max: 1 } });
  try {
    return await use(connection);
  } finally {
    await connection.destroy();
  }
}

/** knex reads ? and :name in raw SQL as bindings; a migration has none. */
function escapeBindings(sql: string): string {
  return sql.replaceAll("?", "\\?");
}
