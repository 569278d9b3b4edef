import { Command } from "commander";
import { VERSION } from "../runtime/version.ts";
import { addCompletionCommand } from "./commands/completion.ts";
import { addBackfillCommand } from "./commands/backfill.ts";
import { addConfigCommand } from "./commands/config.ts";
import { addDemoCommand } from "./commands/demo.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addExportCommand } from "./commands/export.ts";
import { addEraseCommand } from "./commands/erase.ts";
import { addIdentifySignatureCommand } from "./commands/identifySignature.ts";
import { addMigrateCommand } from "./commands/migrate.ts";
import { addOutgoingCommand } from "./commands/outgoing.ts";
import { addOrderCommand } from "./commands/order.ts";
import { addRefetchCommand } from "./commands/refetch.ts";
import { addReplayCommand } from "./commands/replay.ts";
import { addRoleCommands } from "./commands/roles.ts";
import { addSandboxCommand } from "./commands/sandbox.ts";
import { addSourceCommand } from "./commands/source.ts";
import { addStatusCommand } from "./commands/status.ts";
import { addTailCommand } from "./commands/tail.ts";
import { addTriggerCommand } from "./commands/trigger.ts";
import { addVerifyCommand } from "./commands/verify.ts";

const AFTER_HELP = `
Exit codes: 0 ok · 1 failed · 2 wrong usage or configuration · 3 ran and found problems
            75 something needed is away, try again later · 130, 143 ended by a signal

Configuration comes from the environment and from .env; \`order-mirror config\` shows what is in force.`;

/** The whole command line. Errors, commander's included, are thrown; the caller turns them into an exit code. */
export function makeProgram(): Command {
  const program = new Command("order-mirror")
    .description(
      "Keeps a business's courier orders in its own Postgres: at once by webhook, provably completely by polling.",
    )
    .version(VERSION)
    .addHelpText("after", AFTER_HELP)
    .showSuggestionAfterError()
    .exitOverride();
  addDemoCommand(program);
  addRoleCommands(program);
  addMigrateCommand(program);
  addStatusCommand(program);
  addOrderCommand(program);
  addTailCommand(program);
  addRefetchCommand(program);
  addBackfillCommand(program);
  addVerifyCommand(program);
  addSourceCommand(program);
  addExportCommand(program);
  addReplayCommand(program);
  addOutgoingCommand(program);
  addEraseCommand(program);
  addDoctorCommand(program);
  addConfigCommand(program);
  addIdentifySignatureCommand(program);
  addSandboxCommand(program);
  addTriggerCommand(program);
  addCompletionCommand(program);
  // Subcommands inherit exitOverride only when made by the program after it was set; make sure of it.
  for (const command of program.commands) command.exitOverride();
  return program;
}
