import { spawn } from "node:child_process";
import type { Command } from "commander";

import { describeConfig, ENVIRONMENT, findText, listUnknownVariables } from "../../config/environment.ts";
import { readConfig, withMirror } from "../input/session.ts";
import { printJson, printLine, printNotice, printTable } from "../output/terminal.ts";
import { migrateAll } from "../../mirror/createMirror.ts";
import { withDatabase } from "../../mirror/openDatabase.ts";
import { makeLogger } from "../../process/telemetry/logger.ts";
import { UnavailableError } from "../../domain/errors.ts";

/** Commands around the processes, for an operator: `config`, `migrate`, `psql` and `openapi`. */
export function register(program: Command): void {
  program
    .command("migrate")
    .description("bring the database to the newest schema; run it before each release")
    .option("--roles", "also grant the process roles their rights (config/postgres-roles.sql)")
    .option("--json", "print JSON")
    .action(async (options: { roles?: boolean; json?: boolean }) => {
      const config = readConfig();
      const logger = makeLogger({ level: "warn", format: config.logFormat, service: "migrate" });
      const roles = options.roles === true ? "always" : null;
      const ran = await withDatabase(config, ({ url }, { start, signal }) =>
        start(() => migrateAll(url, logger, { roles, signal })),
      );
      if (options.json === true) return printJson({ migrations: ran });
      printLine(ran.length === 0 ? "The database is current." : `Ran ${ran.join(", ")}.`);
      if (roles !== null) printLine("The process roles have their rights.");
    });
  program
    .command("config")
    .description("show the configuration in force and the origin of each value, with secrets hidden")
    .option("--json", "print JSON")
    .action((options: { json?: boolean }) => {
      readConfig();
      for (const unknown of listUnknownVariables(ENVIRONMENT)) printNotice(`order-mirror: ${unknown}`);
      const rows = describeConfig(ENVIRONMENT);
      if (options.json === true) printJson(rows);
      else printTable(rows.map((row) => [row.name, row.value, row.source]));
    });
  program
    .command("psql")
    .argument("[arguments...]", "forwarded to psql, such as -c 'table reporting.sync_status'")
    .allowUnknownOption()
    .description("open psql on the mirror's database; without psql, print its address")
    .action((args: readonly string[]) =>
      withMirror(({ databaseUrl, shutdown }) => {
        // Ctrl-C is for psql, which ends a query by it.
        shutdown.unlisten("SIGINT");
        return openPsql(findText("databaseDirectUrl") ?? findText("databaseUrl") ?? databaseUrl, args);
      }),
    );
  program
    .command("openapi")
    .description("print the OpenAPI 3.1 document of the API, as served by /openapi.json")
    .option("--json", "print JSON, as it does in any case")
    .action(async () => printJson((await import("../../api/openapi/openapi.ts")).describeApi()));
}

async function openPsql(databaseUrl: string, args: readonly string[]): Promise<void> {
  const code = await runPsql(databaseUrl, args);
  if (code !== undefined) return void (process.exitCode = code);
  printLine(databaseUrl);
  printNotice(
    "psql is not installed here; any client of Postgres takes the address above, password included.",
  );
  printNotice("An embedded Postgres answers only while order-mirror runs.");
}

/**
 * Parameters that hosts and programs add to an address for other drivers than libpq, which refuses those that it does
 * not know.
 */
const FOREIGN_PARAMETER = /^(?:uselibpqcompat|schema|connection_limit|pool_timeout|pgbouncer)=/;

/** Translates the address as it was given into what psql understands: its argument, and its environment. */
function describePlace(given: string): { readonly address: string; readonly env: Record<string, string> } {
  const url = new URL(given);
  const password = decodeURIComponent(url.password);
  // On the command line everybody on this machine could read it.
  url.password = "";
  const parameters = url.search.slice(1).split("&");
  url.search = parameters
    .filter((parameter) => !FOREIGN_PARAMETER.test(parameter))
    .map((parameter) => (parameter === "sslmode=no-verify" ? "sslmode=require" : parameter))
    .join("&");
  const authority = ENVIRONMENT["NODE_EXTRA_CA_CERTS"];
  return {
    address: url.href,
    env: {
      ...(authority === undefined ? {} : { PGSSLROOTCERT: authority }),
      ...(password === "" ? {} : { PGPASSWORD: password }),
    },
  };
}

/** The exit code of psql; undefined where it is not installed. */
function runPsql(databaseUrl: string, args: readonly string[]): Promise<number | undefined> {
  const { address, env } = describePlace(databaseUrl);
  const child = spawn("psql", [...args, "--dbname", address], {
    stdio: "inherit",
    env: { ...ENVIRONMENT, ...env },
  });
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
