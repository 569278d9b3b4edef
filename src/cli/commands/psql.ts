import { spawn } from "node:child_process";
import type { Command } from "commander";
import { UnavailableError } from "../../domain/errors.ts";
import { ENVIRONMENT } from "../../runtime/config/processEnvironment.ts";
import { withMirror } from "../input/session.ts";
import { printLine, printNotice } from "../output/terminal.ts";

/** `psql`: SQL on the mirror, wherever its database is. */
export function register(program: Command): void {
  program
    .command("psql")
    .argument("[arguments...]", "forwarded to psql, such as -c 'table reporting.sync_status'")
    .allowUnknownOption()
    .description("open psql on the mirror's database; without psql, print its address")
    .action((args: readonly string[]) =>
      withMirror(async ({ databaseUrl }) => {
        const code = await runPsql(databaseUrl, args);
        if (code === undefined) printAddress(databaseUrl);
        else process.exitCode = code;
      }),
    );
}

/** The exit code of psql; undefined where it is not installed. */
function runPsql(databaseUrl: string, args: readonly string[]): Promise<number | undefined> {
  const address = new URL(databaseUrl);
  const password = decodeURIComponent(address.password);
  // On the command line everybody on this machine could read it.
  address.password = "";
  const child = spawn("psql", [...args, "--dbname", address.href], {
    stdio: "inherit",
    env: { ...ENVIRONMENT, ...(password === "" ? {} : { PGPASSWORD: password }) },
  });
  // Ctrl-C is for psql, which ends a query by it.
  const ignore = () => undefined;
  process.on("SIGINT", ignore);
  return new Promise<number | undefined>((resolve, reject) => {
    child.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") resolve(undefined);
      else reject(new UnavailableError("psql could not be started.", { cause: error }));
    });
    child.once("exit", (code) => resolve(code ?? 1));
  }).finally(() => process.off("SIGINT", ignore));
}

function printAddress(databaseUrl: string): void {
  printLine(databaseUrl);
  printNotice(
    "psql is not installed here; any client of Postgres takes the address above, password included.",
  );
  printNotice("An embedded Postgres answers only while order-mirror runs.");
}
