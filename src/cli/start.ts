import { findText } from "../runtime/config/environment.ts";
import { reportFailure } from "./input/failure.ts";
import { makeProgram } from "./program.ts";

const verbose = ["debug", "trace"].includes(findText("LOG_LEVEL") ?? "");

// The reader of our output may close it early (`| head`); that is not a failure. A full disk behind `>` is one.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  process.exit(error.code === "EPIPE" ? 0 : reportFailure(error, { verbose, json: false }));
});
process.stderr.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

try {
  await (await makeProgram(process.argv[2])).parseAsync(process.argv);
} catch (error) {
  process.exitCode = reportFailure(error, { verbose, json: process.argv.includes("--json") });
}
