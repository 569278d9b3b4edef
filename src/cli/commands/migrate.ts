import type { Command } from "commander";
import type { Config } from "../../runtime/config/config.ts";
import { planPending } from "../../database/schema/migrations.ts";
import { migrateAll, openDatabase } from "../../roles/start/openDatabase.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import { readConfig } from "../input/session.ts";
import { formatPlan } from "../output/migrationPlan.ts";
import { printJson, printLine } from "../output/terminal.ts";

export function addMigrateCommand(program: Command): void {
  program
    .command("migrate")
    .description("bring the database to the newest schema; run it before each release")
    .option("--roles", "also grant the process roles their rights (config/postgres-roles.sql)")
    .option("--plan", "print what would run, which locks it would take and for about how long; run nothing")
    .option("--json", "print JSON")
    .action(async (options: { roles?: boolean; plan?: boolean; json?: boolean }) => {
      const config = readConfig();
      if (options.plan === true) return printPlan(config, options);
      const logger = makeLogger({
        level: "warn",
        format: config.logFormat,
        service: "migrate",
        destination: "stderr",
      });
      const database = await openDatabase(config);
      try {
        const roles = options.roles === true ? "always" : null;
        const ran = await migrateAll(database.url, logger, { roles });
        if (options.json === true) printJson({ migrations: ran });
        else printLine(ran.length === 0 ? "The database is current." : `Ran ${ran.join(", ")}.`);
        if (roles !== null && options.json !== true) printLine("The process roles have their rights.");
      } finally {
        await database.close();
      }
    });
}

async function printPlan(config: Config, { json }: { json?: boolean }): Promise<void> {
  const database = await openDatabase(config);
  try {
    const { migrations, sizes, findings } = await planPending(database.url);
    if (json === true) return printJson({ migrations, sizes: Object.fromEntries(sizes), findings });
    const obstacles = findings.filter(({ kind }) => kind !== "pending");
    for (const { sentence, fix } of obstacles) printLine(`${sentence}\n  fix: ${fix}`);
    if (migrations.length === 0) printLine("The database is current: there is nothing to run.");
    for (const line of migrations.flatMap((migration) => formatPlan(migration, sizes))) printLine(line);
  } finally {
    await database.close();
  }
}
