import type { Command } from "commander";
import { migrateAll } from "../../roles/start/migrateAll.ts";
import { withDatabase } from "../../roles/start/openDatabase.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import { readConfig } from "../input/session.ts";
import { printJson, printLine } from "../output/terminal.ts";

export function register(program: Command): void {
  program
    .command("migrate")
    .description("bring the database to the newest schema; run it before each release")
    .option("--roles", "also grant the process roles their rights (config/postgres-roles.sql)")
    .option("--json", "print JSON")
    .action(async (options: { roles?: boolean; json?: boolean }) => {
      const config = readConfig();
      const logger = makeLogger({ level: "warn", format: config.logFormat, service: "migrate" });
      const roles = options.roles === true ? "always" : null;
      const ran = await withDatabase(config, ({ url }) => migrateAll(url, logger, { roles }));
      if (options.json === true) return printJson({ migrations: ran });
      printLine(ran.length === 0 ? "The database is current." : `Ran ${ran.join(", ")}.`);
      if (roles !== null) printLine("The process roles have their rights.");
    });
}
