import type { Command } from "commander";
import { findText } from "../runtime/config/environment.ts";
import { makeBareProgram } from "./bareProgram.ts";
import { addRoleCommands, PROCESS_ROLES } from "./commands/roles.ts";
import { reportFailure } from "./input/failure.ts";

// Whoever reads our output may have enough of it (`| head`): that is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

try {
  await (await loadProgram(process.argv[2])).parseAsync(process.argv);
} catch (error) {
  process.exitCode = reportFailure(error, {
    verbose: ["debug", "trace"].includes(findText("LOG_LEVEL") ?? ""),
    json: process.argv.includes("--json"),
  });
}

/**
 * A role runs for months, and an export is to be small however much it writes: they load their own code alone, without
 * which they would hold a third more memory.
 */
async function loadProgram(name: string | undefined): Promise<Command> {
  if (PROCESS_ROLES.some((role) => role === name)) return addRoleCommands(makeBareProgram());
  if (name === "export") {
    const { addExportCommand } = await import("./commands/orders/export.ts");
    return addExportCommand(makeBareProgram());
  }
  const { makeProgram } = await import("./program.ts");
  return makeProgram();
}
