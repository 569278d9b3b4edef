/**
 * The schema: numbered SQL files that knex runs once each, forward only, every one in a transaction of its own.
 *
 * With each migration, `order_mirror_migration_runs` gets the checksum of the text that ran, in the same transaction.
 * So one that was edited, that is missing or that a newer release ran is distinguished from one that is merely due, and
 * named in one sentence with a fix: by `migrate`, at the start of every process, by doctor and at /readyz.
 * `judgeSchema` is that rule. After the migrations come steps that may be repeated: BullMQ's own tables, and the rights
 * of the processes.
 */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Knex } from "knex";
import type pg from "pg";
import { ConfigurationError, OrderMirrorError } from "../domain/errors.ts";
import { VERSION } from "../process/version.ts";
import { withClient } from "./database.ts";
import { classifyDatabaseError } from "./databaseErrors.ts";
import { explainDatabaseError } from "./explainDatabaseError.ts";

/** The folder `migrations` next to `src` and `dist`. */
const DIRECTORY = fileURLToPath(new URL("../../migrations", import.meta.url));
const FILE = /^\d{4}_[a-z0-9_]+\.sql$/;
/** Any number that nothing else in the database locks. */
const LOCK_KEY = 7_405_002;
/** The names of steps among the runs. */
const STEPS = ["queue", "roles"];
const START_ANEW = "or use an empty database (another DATABASE_URL or DATA_DIR): polling fills it again.";

/** A numbered SQL file that brings the schema one step forward. */
export interface Migration {
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of its text, in hex, independent of line endings. */
  readonly checksum: string;
}

/** A step after the migrations, in the same order everywhere: it runs once per checksum, and after each migration. */
export interface Step {
  readonly name: "queue" | "roles";
  readonly checksum: string;
  /** True: it runs every time. */
  readonly always?: boolean;
  /** `client` is a session of the migrating account, outside a transaction. */
  readonly run: (client: pg.Client) => Promise<unknown>;
}

/** A database's schema, compared with the migrations of this program. */
export interface SchemaState {
  /** The migrations that this program would run, oldest first. */
  readonly pending: readonly Migration[];
  /** Sentences, one per deviation from the expected schema; the worst first. */
  readonly findings: readonly SchemaFinding[];
}

export interface SchemaFinding {
  readonly kind: "foreign" | "edited" | "missing" | "newer" | "pending";
  readonly sentence: string;
  readonly fix: string;
}

/** A migration or step that ran in this database. */
interface Run {
  readonly name: string;
  /** Null: knex ran it, but not this program. */
  readonly checksum: string | null;
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

/** All migrations of this program, oldest first. @internal */
async function readMigrations(directory = DIRECTORY): Promise<readonly Migration[]> {
  const files = (await readdir(directory)).filter((file) => FILE.test(file)).sort();
  return Promise.all(
    files.map(async (file) => {
      const sql = (await readFile(path.join(directory, file), "utf8")).replaceAll("\r\n", "\n");
      const checksum = createHash("sha256").update(sql).digest("hex");
      return { name: path.basename(file, ".sql"), sql, checksum };
    }),
  );
}

/**
 * Brings the database to the newest schema; returns the names of the migrations it ran, none if the schema was current.
 *
 * Throws ConfigurationError if the schema is not one that these migrations can continue from, and the reason of
 * `signal`.
 */
export async function migrate(
  databaseUrl: string,
  {
    steps = [],
    migrations,
    signal,
  }: {
    readonly steps?: readonly Step[];
    readonly migrations?: readonly Migration[];
    /** Ends it between two steps. */
    readonly signal?: AbortSignal | undefined;
  } = {},
): Promise<string[]> {
  const known = migrations ?? (await readMigrations());
  return withClient(databaseUrl, async (client) => {
    // A server may end idle sessions, and this one idles while knex migrates on another: its lock would be lost.
    await client.query("set idle_session_timeout = 0");
    // The session lock makes a second process wait. A knex lock that still exists was left behind by a killed process.
    await client.query("select pg_advisory_lock($1)", [LOCK_KEY]);
    const runs = await readRuns(client);
    if (runs?.length === 0) await refuseTakenName(client);
    const { pending, findings } = judgeSchema(runs, known);
    const obstacle = findings.find(({ kind }) => kind !== "pending" && kind !== "newer");
    if (obstacle !== undefined) throw new ConfigurationError(obstacle.sentence, { fix: obstacle.fix });
    await client.query(CREATE_RUNS);
    if (pending.length > 0) await runAll(databaseUrl, { known, pending, signal });
    for (const { name, checksum, always, run } of steps) {
      const last = runs?.find((ran) => ran.name === name);
      if (pending.length === 0 && !always && last?.checksum === checksum) continue;
      signal?.throwIfAborted();
      await run(client);
      await client.query(RECORD_RUN, [name, checksum, VERSION]);
    }
    return pending.map(({ name }) => name);
  });
}

/** Throws ConfigurationError if the database has a schema `reporting` of somebody else: nothing of it may change. */
async function refuseTakenName(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query("select from pg_catalog.pg_namespace where nspname = 'reporting'");
  if (rows.length === 0) return;
  throw new ConfigurationError(
    "The database has a schema `reporting` already, which order-mirror would create.",
    {
      fix: "Use another database of the server (createdb order_mirror), or rename that schema: alter schema reporting rename to …",
    },
  );
}

/** Compares the schema of `databaseUrl` with this program; changes nothing. */
export async function examineSchema(
  databaseUrl: string,
  migrations?: readonly Migration[],
): Promise<SchemaState> {
  const runs = await withClient(databaseUrl, readRuns);
  return judgeSchema(runs, migrations ?? (await readMigrations()));
}

/**
 * Throws ConfigurationError if this program cannot work with the schema: no process starts on an older one. Returns
 * remarks about a schema that it can work with.
 */
export async function assertMigrated(databaseUrl: string): Promise<readonly string[]> {
  const { findings } = await examineSchema(databaseUrl);
  const obstacle = findings.find(({ kind }) => kind !== "newer");
  if (obstacle !== undefined) throw new ConfigurationError(obstacle.sentence, { fix: obstacle.fix });
  return findings.map(({ sentence }) => sentence);
}

async function runAll(
  databaseUrl: string,
  {
    known,
    pending,
    signal,
  }: {
    known: readonly Migration[];
    pending: readonly Migration[];
    signal: AbortSignal | undefined;
  },
): Promise<void> {
  // A process that finds nothing to migrate does not load it. The caller reports errors.
  const { default: knex } = await import("knex");
  const log = { warn: () => undefined, error: () => undefined };
  const connection = knex({ client: "pg", connection: databaseUrl, pool: { min: 0, max: 1 }, log });
  const config: Knex.MigratorConfig = {
    migrationSource: makeSource(known),
    tableName: "order_mirror_migrations",
    // The roles of shared servers often have a search_path without it.
    schemaName: "public",
    // The database may be ahead of this release while an older release runs next to a newer one, or after a rollback.
    disableMigrationsListValidation: true,
  };
  try {
    await connection.migrate.forceFreeMigrationsLock(config);
    for (const { name } of pending) {
      signal?.throwIfAborted();
      await connection.migrate.up({ ...config, name });
    }
  } finally {
    await connection.destroy();
  }
}

/**
 * knex's own loader records the file extension, so a database migrated from .ts in development would refuse .js in
 * production; the name recorded here has no extension.
 */
function makeSource(migrations: readonly Migration[]): Knex.MigrationSource<Migration> {
  return {
    getMigrations: () => Promise.resolve([...migrations]),
    getMigrationName: ({ name }) => name,
    getMigration: (migration) =>
      Promise.resolve({
        up: (connection) => runMigration(connection, migration),
        down: () => Promise.reject(new Error("migrations only run forward")),
      }),
  };
}

async function runMigration(connection: Knex, { name, sql, checksum }: Migration): Promise<void> {
  try {
    // knex treats ? and :name in raw SQL as bindings; migrations have none.
    await connection.raw(sql.replaceAll("?", "\\?"));
  } catch (error) {
    const isReported =
      classifyDatabaseError(error) === "transient" || explainDatabaseError(error) !== undefined;
    throw isReported ? error : new MigrationFailedError(name, error);
  }
  const values = [name, checksum, VERSION];
  await connection.raw(RECORD_RUN.replaceAll(/\$\d/g, "?"), values);
}

const CREATE_RUNS = `
  create table if not exists public.order_mirror_migration_runs (
    name text primary key,
    checksum text not null,
    program text not null,
    ran_at timestamptz not null default clock_timestamp()
  );
  comment on table public.order_mirror_migration_runs is 'Each migration as it was when it ran here, so that one that is edited or missing is noticed.'`;

const RECORD_RUN = `
  insert into public.order_mirror_migration_runs as r (name, checksum, program) values ($1, $2, $3)
  on conflict (name) do update
  set checksum = excluded.checksum, program = excluded.program, ran_at = clock_timestamp()`;

/**
 * Lists what ran in this database, ordered by name: nothing in a new one. Undefined when it holds a schema `mirror`, or
 * tables of migrations, that this program did not make.
 */
async function readRuns(client: pg.ClientBase): Promise<readonly Run[] | undefined> {
  const { rows: places } = await client.query<{ knex: boolean; runs: boolean; mirror: boolean }>(
    `select to_regclass('public.order_mirror_migrations') is not null as knex,
       (select count(*) = 3 from pg_catalog.pg_attribute
        where attrelid = to_regclass('public.order_mirror_migration_runs')
          and attname in ('name', 'checksum', 'ran_at')) as runs,
       to_regnamespace('mirror') is not null as mirror`,
  );
  const [found] = places;
  if (found?.knex !== true) return found?.mirror === true ? undefined : [];
  if (!found.runs) return undefined;
  const { rows } = await client.query<Run>(
    `select name, checksum
     from public.order_mirror_migrations m full join public.order_mirror_migration_runs r using (name)
     where m.name is not null or r.name = any ($1) order by name`,
    [STEPS],
  );
  return rows;
}

/** Compares what ran in a database with what this program would run. */
function judgeSchema(found: readonly Run[] | undefined, known: readonly Migration[]): SchemaState {
  if (found === undefined) return { pending: [], findings: [FOREIGN] };
  const runs = found.filter(({ name }) => !STEPS.includes(name));
  const newest = known.at(-1)?.name ?? "";
  const checksums = new Map(known.map(({ name, checksum }) => [name, checksum]));
  const ran = new Set(runs.map(({ name }) => name));
  const pending = known.filter(({ name }) => !ran.has(name));
  const edited = runs.filter(({ name, checksum }) => (checksums.get(name) ?? checksum) !== checksum);
  const strange = runs.filter(({ name }) => !checksums.has(name));
  const missing = strange.filter(({ name }) => name < newest);
  const newer = strange.filter(({ name }) => name > newest);
  const findings = [
    edited.length > 0 && describeEdited(edited),
    missing.length > 0 && tellMissing(missing),
    pending.length > 0 && tellPending(pending),
    newer.length > 0 && tellNewer(newer),
  ];
  return { pending, findings: findings.filter((finding) => finding !== false) };
}

const FOREIGN: SchemaFinding = {
  kind: "foreign",
  sentence: "The database holds a mirror that another program or another make of order-mirror created.",
  fix: `Run the version that made it, ${START_ANEW}`,
};

const describeEdited = (edited: readonly Run[]): SchemaFinding => ({
  kind: "edited",
  sentence: `The database ran a different text of ${listNames(edited)} than this program has, so its schema is not the one that this program expects.`,
  fix: `Run the program version that migrated this database, ${START_ANEW}`,
});

const tellMissing = (missing: readonly Run[]): SchemaFinding => ({
  kind: "missing",
  sentence: `The database ran ${listNames(missing)}, which this program lacks although it has later migrations.`,
  fix: `Reinstall order-mirror, if its folder \`migrations\` is incomplete; run the version that made the database, ${START_ANEW}`,
});

const tellPending = (pending: readonly Migration[]): SchemaFinding => ({
  kind: "pending",
  sentence: `The database lacks ${pending.length === 1 ? "a migration" : `${pending.length} migrations`} (${pending.map(({ name }) => name).join(", ")}).`,
  fix: "Run `order-mirror migrate` first.",
});

const tellNewer = (newer: readonly Run[]): SchemaFinding => ({
  kind: "newer",
  sentence: `The database was migrated by a newer release: it ran ${listNames(newer)}.`,
  fix: "This release also runs on it, during an upgrade and after a rollback; finish the upgrade when you can.",
});

function listNames(migrations: readonly { readonly name: string }[]): string {
  const [first, ...others] = migrations.map(({ name }) => name);
  return others.length === 0 ? `the migration ${first}` : `the migration ${first} and ${others.length} more`;
}
