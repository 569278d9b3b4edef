#!/usr/bin/env node
// Import nothing before this check: an older Node fails on the first import it does not support.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major > 20 || (major === 20 && minor >= 19)) {
  await run();
} else {
  process.stderr.write(
    `order-mirror: Node ${process.versions.node} is too old.\n  fix: Install Node 20.19 or newer, preferably the current LTS.\n`,
  );
  process.exitCode = 2;
}

async function run(): Promise<void> {
  const { findText } = await import("../config/environment.ts");
  const { reportFailure } = await import("./output/terminal.ts");
  const { makeProgram } = await import("./program.ts");
  const verbose = ["debug", "trace"].includes(findText("logLevel") ?? "");
  // The reader of our output may close it early (`| head`), and the disk behind `>` may be full. A service or a long
  // command listens too, and ends by itself; a short one goes on to its end.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    // What shells expect after SIGPIPE.
    process.exitCode ??= error.code === "EPIPE" ? 141 : reportFailure(error, { verbose, json: false });
  });
  process.stderr.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });
  try {
    await (await makeProgram(process.argv[2])).parseAsync(process.argv);
  } catch (error) {
    process.exitCode = reportFailure(error, { verbose, json: process.argv.includes("--json") });
  }
}

export {};
