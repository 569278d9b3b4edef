import { findText } from "../runtime/config/processEnvironment.ts";
import { reportFailure } from "./output/terminal.ts";
import { makeProgram } from "./program.ts";

const verbose = ["debug", "trace"].includes(findText("LOG_LEVEL") ?? "");

/** What shells expect after SIGPIPE. */
const CLOSED_OUTPUT = 141;

// The reader of our output may close it early (`| head`), and the disk behind `>` may be full. A service or a long command
// listens too, and ends by itself.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  const isClosed = error.code === "EPIPE";
  process.exitCode ??= isClosed ? CLOSED_OUTPUT : reportFailure(error, { verbose, json: false });
  if (!isClosed && process.stdout.listenerCount("error") === 1) process.exit();
});
process.stderr.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

try {
  await (await makeProgram(process.argv[2])).parseAsync(process.argv);
} catch (error) {
  process.exitCode = reportFailure(error, { verbose, json: process.argv.includes("--json") });
}
