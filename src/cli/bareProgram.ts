import { Command } from "commander";
import { VERSION } from "../runtime/version.ts";

const AFTER_HELP = `
Exit codes: 0 ok · 1 failed · 2 wrong usage or configuration · 3 ran and found problems
            75 something needed is away, try again later · 130, 143 ended by a signal

Configuration comes from the environment and from .env; \`order-mirror config\` shows what is in force.`;

/** The command line without its commands. Errors, commander's included, are thrown. */
export function makeBareProgram(): Command {
  return new Command("order-mirror")
    .description(
      "Keeps a business's courier orders in its own Postgres: at once by webhook, provably completely by polling.",
    )
    .version(VERSION)
    .addHelpText("after", AFTER_HELP)
    .showSuggestionAfterError()
    .exitOverride();
}
