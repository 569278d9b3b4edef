import type { Knex } from "knex";
import type pg from "pg";
import { ConfigurationError, OrderMirrorError } from "../../domain/errors.ts";
import { withClient } from "../database.ts";
import { classifyDatabaseError } from "../databaseErrors.ts";
import { explainDatabaseError } from "../explainDatabaseError.ts";
import { VERSION } from "../../runtime/version.ts";
import { readMigrations } from "./migrationFiles.ts";
import type { Migration } from "./migrationFiles.ts";
import { beginRun, endRun, isMigrating, lockMigrations, prepareRuns, readRuns } from "./migrationRuns.sql.ts";
import { planMigrations } from "./migrationPlan.ts";
import { readTableSizes } from "./tableSizes.sql.ts";
import { findObstacle, judgeSchema } from "./schemaState.ts";
import type { SchemaState, StepName } from "./schemaState.ts";

/**
 * Numbered .sql files as knex migrations, forward only.
 *
 * knex's own loader records the file extension, so a database migrated from .ts in development would refuse .js in
 * production; the name recorded here has no extension.
 */
function makeSource(migrations: readonly Migration[]): Knex.MigrationSource<Migration> {
  return {
    getMigrations: () => Promise.resolve([...migrations]),
    getMigrationName: ({ name }) => name,
    getMigration: (migration) =>
      Promise.resolve({
        up: (connection) => runSql(connection, migration),
        down: () => Promise.reject(new Error("migrations only run forward")),
      }),
  };
}

async function runSql(connection: Knex, { name, sql }: Migration): Promise<void> {
  try {
    await connection.raw(escapeBindings(sql));
  } catch (error) {
    const reported =
      classifyDatabaseError(error) === "transient" || explainDatabaseError(error) !== undefined;
    throw reported ? error : new MigrationFailedError(name, error);
  }
}

/** Postgres refused a statement of a migration. Each migration is one transaction, so nothing of it remains. */
class MigrationFailedError extends OrderMirrorError {
  override readonly name = "MigrationFailedError";
  override readonly retry = "never";

  constructor(migration: string, cause: unknown) {
    // knex puts the whole file before what Postgres says.
    const reason =
      String((cause as Error).message)
        .split(" - ")
        .at(-1) ?? "";
    super(`The migration ${migration} failed and was rolled back: ${reason}.`, {
      cause,
      fix: "Correct what Postgres names, then run `order-mirror migrate` again.",
    });
  }
}

const makeConfig = (migrations: readonly Migration[]): Knex.MigratorConfig => ({
  migrationSource: makeSource(migrations),
  tableName: "order_mirror_migrations",
  // The database may be ahead of this release while an older release runs next to a newer one, or after a rollback.
  disableMigrationsListValidation: true,
});

/** A step after the migrations, in the same order everywhere: it runs once per checksum, and after each migration. */
export interface Step {
  readonly name: StepName;
  readonly checksum: string;
  /** True: it runs every time. */
  readonly always?: boolean;
  /** `client` is a session of the migrating account, outside a transaction. */
  readonly run: (client: pg.Client) => Promise<unknown>;
}

/**
 * Brings the database to the newest schema; returns the names of the migrations it ran, none if the schema was current.
 *
 * Throws ConfigurationError if the schema is not one that these migrations can continue from.
 */
export async function migrate(
  databaseUrl: string,
  { steps = [], migrations }: { steps?: readonly Step[]; migrations?: readonly Migration[] } = {},
): Promise<string[]> {
  const known = migrations ?? (await readMigrations());
  return withClient(databaseUrl, async (client) => {
    // The session lock makes a second process wait. A knex lock that still exists was left behind by a killed process.
    await lockMigrations(client);
    const runs = await readRuns(client);
    const state = judgeSchema(runs, known, false);
    const obstacle = findObstacle(state);
    if (obstacle !== undefined) throw new ConfigurationError(obstacle.sentence, { fix: obstacle.fix });
    await prepareRuns(client);
    const { pending } = state;
    if (pending.length > 0) await runAll(databaseUrl, { client, known, pending });
    for (const step of steps) {
      const last = runs.find(({ name, ended }) => name === step.name && ended);
      if (pending.length > 0 || step.always || last?.checksum !== step.checksum) await runStep(client, step);
    }
    return pending.map(({ name }) => name);
  });
}

async function runStep(client: pg.Client, { name, checksum, run }: Step): Promise<void> {
  await beginRun(client, { name, checksum, oldestProgram: null, program: VERSION });
  await run(client);
  await endRun(client, name);
}

async function runAll(
  databaseUrl: string,
  deps: { client: pg.Client; known: readonly Migration[]; pending: readonly Migration[] },
): Promise<void> {
  // The caller reports errors.
  const log = { warn: () => undefined, error: () => undefined };
  // A process that finds nothing to migrate does not load it.
  const { default: knex } = await import("knex");
  const connection = knex({ client: "pg", connection: databaseUrl, pool: { min: 0, max: 1 }, log });
  const config = makeConfig(deps.known);
  try {
    await connection.migrate.forceFreeMigrationsLock(config);
    for (const migration of deps.pending) {
      await beginRun(deps.client, { ...migration, program: VERSION });
      await connection.migrate.up({ ...config, name: migration.name });
      await endRun(deps.client, migration.name);
    }
  } finally {
    await connection.destroy();
  }
}

/** Compares the schema of `databaseUrl` with this program; changes nothing. */
export async function examineSchema(
  databaseUrl: string,
  migrations?: readonly Migration[],
): Promise<SchemaState> {
  return withClient(databaseUrl, async (client) => {
    const runs = await readRuns(client);
    const migrating = runs.some(({ halfRun }) => halfRun) && (await isMigrating(client));
    return judgeSchema(runs, migrations ?? (await readMigrations()), migrating);
  });
}

/** The pending migrations and their locks; changes nothing. */
export async function planPending(databaseUrl: string) {
  const { pending, findings } = await examineSchema(databaseUrl);
  const migrations = planMigrations(pending);
  const tables = migrations.flatMap(({ locks }) => locks.map(({ table }) => table));
  const sizes = await withClient(databaseUrl, (client) => readTableSizes(client, tables));
  return { migrations, sizes, findings };
}

/** knex treats ? and :name in raw SQL as bindings; migrations have none. */
function escapeBindings(sql: string): string {
  return sql.replaceAll("?", "\\?");
}
