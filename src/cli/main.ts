#!/usr/bin/env node
import { makeProgram } from "./program.ts";
import { reportFailure } from "./failure.ts";

try {
  await makeProgram().parseAsync(process.argv);
} catch (error) {
  process.exitCode = reportFailure(error, {
    verbose: ["debug", "trace"].includes(process.env["LOG_LEVEL"] ?? ""),
  });
}
