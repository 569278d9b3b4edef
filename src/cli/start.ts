import { findText } from "../runtime/config/environment.ts";
import { reportFailure } from "./input/failure.ts";
import { makeProgram } from "./program.ts";

// The reader of our output may close it early (`| head`); that is not a failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});
process.stderr.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

try {
  await (await makeProgram(process.argv[2])).parseAsync(process.argv);
} catch (error) {
  process.exitCode = reportFailure(error, {
    verbose: ["debug", "trace"].includes(findText("LOG_LEVEL") ?? ""),
    json: process.argv.includes("--json"),
  });
}
