import type { Command } from "commander";
import { migrateAll, openDatabase } from "../../roles/start/openDatabase.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import { readConfig } from "../input/session.ts";
import { printJson, printLine } from "../output/terminal.ts";

export function addMigrateCommand(program: Command): void {
  program
    .command("migrate")
    .description("bring the database to the newest schema; run it before each release")
    .option("--roles", "give the roles of the processes their rights as well (config/postgres-roles.sql)")
    .option("--json", "print JSON")
    .action(async (options: { roles?: boolean; json?: boolean }) => {
      const config = readConfig();
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
        if (roles !== null && options.json !== true)
          printLine("The roles of the processes have their rights.");
      } finally {
        await database.close();
      }
    });
}
