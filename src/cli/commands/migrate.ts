import type { Command } from "commander";
import { migrateAll, openDatabase } from "../../roles/start/openDatabase.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import { readConfig } from "../input/session.ts";
import { printJson, printLine } from "../output/terminal.ts";

export function addMigrateCommand(program: Command): void {
  program
    .command("migrate")
    .description("bring the database to the newest schema; run it before each release")
    .option("--json", "print JSON")
    .action(async (options: { json?: boolean }) => {
      const config = readConfig();
      const logger = makeLogger({
        level: "warn",
        format: config.logFormat,
        service: "migrate",
        destination: "stderr",
      });
      const database = await openDatabase(config);
      try {
        const ran = await migrateAll(database.url, logger);
        if (options.json === true) printJson({ migrations: ran });
        else printLine(ran.length === 0 ? "The database is current." : `Ran ${ran.join(", ")}.`);
      } finally {
        await database.close();
      }
    });
}
