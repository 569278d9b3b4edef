import type { Command } from "commander";
import type { Config } from "../../runtime/config/config.ts";
import { planPending } from "../../database/schema/migrations.ts";
import { migrateAll, withDatabase } from "../../roles/start/openDatabase.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import { configureHere } from "../demo/demoFolder.ts";
import { readConfig } from "../input/session.ts";
import { printJson, printLine } from "../output/terminal.ts";
import type { PlannedMigration, TableLock, Work } from "../../database/schema/migrationPlan.ts";
import type { TableSize } from "../../database/schema/tableSizes.sql.ts";

export function register(program: Command): void {
  program
    .command("migrate")
    .description("bring the database to the newest schema; run it before each release")
    .option("--roles", "also grant the process roles their rights (config/postgres-roles.sql)")
    .option("--plan", "print what would run, which locks it would take and for about how long; run nothing")
    .option("--json", "print JSON")
    .action(async (options: { roles?: boolean; plan?: boolean; json?: boolean }) => {
      const config = readConfig();
      if (options.plan === true) return printPlan(await configureHere(config), options);
      const logger = makeLogger({ level: "warn", format: config.logFormat, service: "migrate" });
      const roles = options.roles === true ? "always" : null;
      const ran = await withDatabase(config, ({ url }) => migrateAll(url, logger, { roles }));
      if (options.json === true) return printJson({ migrations: ran });
      printLine(ran.length === 0 ? "The database is current." : `Ran ${ran.join(", ")}.`);
      if (roles !== null) printLine("The process roles have their rights.");
    });
}

async function printPlan(config: Config, { json }: { json?: boolean }): Promise<void> {
  const { migrations, sizes, findings } = await withDatabase(config, ({ url }) => planPending(url));
  if (json === true) return printJson({ migrations, sizes: Object.fromEntries(sizes), findings });
  const obstacles = findings.filter(({ kind }) => kind !== "pending");
  for (const { sentence, fix } of obstacles) printLine(`${sentence}\n  fix: ${fix}`);
  if (migrations.length === 0) printLine("The database is current: there is nothing to run.");
  for (const line of migrations.flatMap((migration) => formatPlan(migration, sizes))) printLine(line);
}

/** Bytes a second of a disk and a processor that are busy with other things as well. */
const BYTES_PER_SECOND: Readonly<Record<Exclude<Work, "none">, number>> = {
  scan: 200_000_000,
  index: 40_000_000,
  rewrite: 30_000_000,
};
const MEGABYTE = 1_000_000;

/** The lines that say what a migration locks, and for how long at the table's size. */
function formatPlan(
  { name, statements, locks, unjudged }: PlannedMigration,
  sizes: ReadonlyMap<string, TableSize>,
): string[] {
  const lines = locks.map((lock) => `  ${formatLock(lock, sizes.get(lock.table))}`);
  const unknown = unjudged.map((statement) => `  not judged: ${statement} …`);
  const what = lines.length + unknown.length === 0 ? "; it only adds what is new and locks nothing" : "";
  return [`${name}: ${statements} statements${what}`, ...lines, ...unknown];
}

function formatLock({ table, blocks, work }: TableLock, size: TableSize | undefined): string {
  const megabytes = size === undefined ? "" : ` (${Math.ceil(size.bytes / MEGABYTE)} MB)`;
  return `${table}${megabytes}: blocks ${blocks} ${formatTime(work, size)}`;
}

function formatTime(work: Work, size: TableSize | undefined): string {
  if (work === "none") return "for an instant, once running transactions on it have ended";
  const verb = { scan: "reads", index: "indexes", rewrite: "rewrites" }[work];
  if (size === undefined) return `while it ${verb} the table`;
  return `while it ${verb} the table, about ${Math.ceil(size.bytes / BYTES_PER_SECOND[work])} s`;
}
