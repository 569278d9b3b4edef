#!/usr/bin/env node
import { makeProgram } from "./program.ts";
import { findText } from "../runtime/environment.ts";
import { reportFailure } from "./failure.ts";

// Whoever reads our output may have enough of it (`| head`): that is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

try {
  await makeProgram().parseAsync(process.argv);
} catch (error) {
  process.exitCode = reportFailure(error, {
    verbose: ["debug", "trace"].includes(findText("LOG_LEVEL") ?? ""),
  });
}
