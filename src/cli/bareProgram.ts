import { Command } from "commander";
import { VERSION } from "../runtime/version.ts";

const AFTER_HELP = `
Exit codes: 0 ok · 1 failed · 2 wrong usage or configuration · 3 problems found
            75 a required service is unavailable, try again later · 130, 143 ended by a signal

Configuration comes from the environment and from .env; \`order-mirror config\` shows the values in force.`;

/** The command line without its commands. Throws errors, including commander's. */
export function makeBareProgram(): Command {
  return new Command("order-mirror")
    .description(
      "Keeps a business's courier orders in its own Postgres: immediately by webhook, provably complete by polling.",
    )
    .version(VERSION)
    .addHelpText("after", AFTER_HELP)
    .showSuggestionAfterError()
    .exitOverride();
}
