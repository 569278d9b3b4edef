import type { Command } from "commander";
import { makeBareProgram } from "./bareProgram.ts";
import { addCompletionCommand } from "./commands/completion.ts";
import { addBackfillCommand } from "./commands/orders/backfill.ts";
import { addConfigCommand } from "./commands/config.ts";
import { addDemoCommand } from "./demo/demo.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addExportCommand } from "./commands/orders/export.ts";
import { addEraseCommand } from "./commands/orders/erase.ts";
import { addIdentifySignatureCommand } from "./commands/identifySignature.ts";
import { addMigrateCommand } from "./commands/migrate.ts";
import { addOutgoingCommand } from "./commands/outgoing.ts";
import { addOpenapiCommand } from "./commands/openapi.ts";
import { addOrderCommand } from "./commands/orders/order.ts";
import { addPsqlCommand } from "./commands/psql.ts";
import { addRefetchCommand } from "./commands/orders/refetch.ts";
import { addReplayCommand } from "./commands/orders/replay.ts";
import { addRoleCommands } from "./commands/roles.ts";
import { addSandboxCommand } from "./commands/sandbox.ts";
import { addSourceCommand } from "./commands/source.ts";
import { addStatusCommand } from "./commands/status.ts";
import { addTailCommand } from "./commands/orders/tail.ts";
import { addTriggerCommand } from "./commands/trigger.ts";
import { addVerifyCommand } from "./commands/orders/verify.ts";

/** The whole command line. Errors, commander's included, are thrown; the caller turns them into an exit code. */
export function makeProgram(): Command {
  const program = makeBareProgram();
  addDemoCommand(program);
  addRoleCommands(program);
  addMigrateCommand(program);
  addStatusCommand(program);
  addOrderCommand(program);
  addTailCommand(program);
  addPsqlCommand(program);
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
  addOpenapiCommand(program);
  addCompletionCommand(program);
  // Subcommands inherit exitOverride only when made by the program after it was set; make sure of it.
  for (const command of program.commands) command.exitOverride();
  return program;
}
