import type { Command } from "commander";
import { describeConfig } from "../../runtime/config/config.ts";
import { ENVIRONMENT } from "../../runtime/config/processEnvironment.ts";
import { readConfig } from "../input/session.ts";
import { alignColumns, printJson, printLine } from "../output/terminal.ts";

export function register(program: Command): void {
  program
    .command("config")
    .description("show the configuration in force and the origin of each value, with secrets hidden")
    .option("--json", "print JSON")
    .action((options: { json?: boolean }) => {
      const rows = describeConfig(readConfig(), ENVIRONMENT);
      if (options.json === true) {
        printJson(rows);
        return;
      }
      const lines = alignColumns(rows.map((row) => [row.name, row.value, row.source]));
      for (const line of lines) printLine(line);
    });
}
