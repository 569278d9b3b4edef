import { VERSION } from "../../runtime/version.ts";
import type { Migration } from "./migrationFiles.ts";
import type { MigrationRun } from "./migrationRuns.sql.ts";

/** The steps after the migrations: BullMQ's own migrations, and the rights of config/postgres-roles.sql. */
export type StepName = "queue" | "roles";

const STEPS: Readonly<Record<string, string>> = {
  queue: "The migration of the queue's tables",
  roles: "Granting the rights of config/postgres-roles.sql",
};

/** A database's schema, compared with the migrations of this program. */
export interface SchemaState {
  /** The migrations that this program would run, oldest first. */
  readonly pending: readonly Migration[];
  /** One sentence per deviation from the expected schema; the worst first. */
  readonly findings: readonly SchemaFinding[];
}

export interface SchemaFinding {
  readonly kind: "edited" | "missing" | "too_new" | "newer" | "half_run" | "running" | "pending";
  readonly sentence: string;
  readonly fix: string;
}

/** These block every migration: the schema is not the one that the next migration expects. */
const MAY_NOT_MIGRATE = new Set(["edited", "missing", "too_new"]);
/** A process starts in spite of these. */
const MAY_START = new Set(["newer"]);

/** The finding that blocks `migrate`; undefined if none does. */
export function findObstacle({ findings }: SchemaState): SchemaFinding | undefined {
  return findings.find(({ kind }) => MAY_NOT_MIGRATE.has(kind));
}

/** The finding that blocks the start of a process; undefined if none does. */
export function findStartObstacle({ findings }: SchemaState): SchemaFinding | undefined {
  return findings.find(({ kind }) => !MAY_START.has(kind));
}

/** Compares what ran in a database with what this program would run; `migrating`: a session is migrating it now. */
export function judgeSchema(
  runs: readonly MigrationRun[],
  known: readonly Migration[],
  migrating: boolean,
): SchemaState {
  const newest = known.at(-1)?.name ?? "";
  const named = new Map(known.map((migration) => [migration.name, migration]));
  const ended = runs.filter((run) => run.ended && STEPS[run.name] === undefined);
  const ran = new Set(ended.map(({ name }) => name));
  const pending = known.filter(({ name }) => !ran.has(name));
  const edited = ended.filter(
    ({ name, checksum }) => named.has(name) && named.get(name)?.checksum !== checksum,
  );
  const strange = ended.filter(({ name }) => !named.has(name));
  const newer = strange.filter(({ name }) => name > newest);
  const tooNew = newer.filter(
    ({ oldestProgram }) => oldestProgram !== null && isOlder(VERSION, oldestProgram),
  );
  const unfinished = runs.filter(({ halfRun }) => halfRun);
  const findings = [
    ...edited.slice(0, 1).map(() => tellEdited(edited)),
    ...strange.slice(0, 1).flatMap(() => tellMissing(strange.filter((run) => !newer.includes(run)))),
    ...tooNew.slice(-1).map((run) => tellTooNew(run)),
    ...unfinished.slice(0, 1).map((run) => tellUnfinished(run, migrating)),
    ...pending.slice(0, 1).map(() => tellPending(pending)),
    ...newer.slice(0, 1).map(() => tellNewer(newer)),
  ];
  return { pending, findings };
}

function tellEdited(edited: readonly MigrationRun[]): SchemaFinding {
  const names = listNames(edited);
  const sentence = `The database ran a different text of ${names} than this program has, so its schema is not the one that this program expects.`;
  const fix =
    "Run the program version that migrated this database, or use an empty database: it fills itself from the provider.";
  return { kind: "edited", sentence, fix };
}

function tellMissing(missing: readonly MigrationRun[]): SchemaFinding[] {
  if (missing.length === 0) return [];
  const sentence = `The database ran ${listNames(missing)}, which this program lacks although it has later migrations.`;
  return [
    { kind: "missing", sentence, fix: "Reinstall order-mirror; its folder `migrations` is incomplete." },
  ];
}

function tellTooNew({ name, oldestProgram }: MigrationRun): SchemaFinding {
  const sentence = `The database ran ${name} of a newer release, so order-mirror ${VERSION} can no longer work with it.`;
  return {
    kind: "too_new",
    sentence,
    fix: `Run order-mirror ${oldestProgram} or newer, or restore the backup made before.`,
  };
}

function tellNewer(newer: readonly MigrationRun[]): SchemaFinding {
  const sentence = `The database was migrated by a newer release (${newer.map(({ name }) => name).join(", ")}).`;
  const fix =
    "This release also runs on it, during an upgrade and after a rollback; finish the upgrade when you can.";
  return { kind: "newer", sentence, fix };
}

function tellUnfinished({ name, beganAt }: MigrationRun, migrating: boolean): SchemaFinding {
  const what = STEPS[name] ?? `The migration ${name}`;
  const since = beganAt === null ? "" : ` at ${beganAt.toISOString()}`;
  if (migrating) {
    return {
      kind: "running",
      sentence: `${what} started${since} and is still running.`,
      fix: "Wait until it ends.",
    };
  }
  const sentence = `${what} started${since} and did not finish: it failed or was interrupted.`;
  const command = name === "roles" ? "order-mirror migrate --roles" : "order-mirror migrate";
  return { kind: "half_run", sentence, fix: `Run \`${command}\` again.` };
}

function tellPending(pending: readonly Migration[]): SchemaFinding {
  const count = pending.length === 1 ? "a migration" : `${pending.length} migrations`;
  const sentence = `The database lacks ${count} (${pending.map(({ name }) => name).join(", ")}).`;
  return { kind: "pending", sentence, fix: "Run `order-mirror migrate` first." };
}

function listNames(runs: readonly MigrationRun[]): string {
  const [first, ...others] = runs.map(({ name }) => name);
  return others.length === 0 ? `the migration ${first}` : `the migration ${first} and ${others.length} more`;
}

function isOlder(version: string, than: string): boolean {
  const [left, right] = [version, than].map((text) => text.split(".").map(Number));
  const at = [0, 1, 2].find((place) => left?.[place] !== right?.[place]);
  return at !== undefined && (left?.[at] ?? 0) < (right?.[at] ?? 0);
}
