import { assertMigrated } from "../../database/migrations.ts";
import { withDatabase } from "../../roles/start/openDatabase.ts";
import { withPool } from "../../database/database.ts";
import type { Pool } from "../../database/database.ts";
import { loadConfig } from "../../runtime/config/config.ts";
import type { Config } from "../../runtime/config/config.ts";
import { ENV_FILE, remarkOnNames } from "../../runtime/config/environment.ts";
import { ENVIRONMENT } from "../../runtime/config/processEnvironment.ts";
import { checkScheme } from "../../signature/verifier.ts";
import { configureHere } from "../demo/demoFolder.ts";
import { printNotice } from "../output/terminal.ts";

const COMMAND_CONNECTIONS = 2;
const COMMAND_TIMEOUT_MS = 30_000;

/**
 * Reads this process's configuration once and names variables on stderr that nothing reads. Throws ConfigurationError with
 * every problem found.
 */
export function readConfig(): Config {
  for (const remark of remarkOnNames(ENVIRONMENT, ENV_FILE)) printNotice(remark);
  return loadConfig(ENVIRONMENT, { checkScheme });
}

/**
 * Runs a short command against the database. Joins the embedded server, or starts it for the duration of the command.
 */
export async function withMirror<Result>(
  use: (deps: { config: Config; pool: Pool; databaseUrl: string }) => Promise<Result>,
): Promise<Result> {
  const config = await configureHere(readConfig());
  return withDatabase(config, async ({ url }) => {
    await assertMigrated(url);
    const options = {
      url,
      purpose: "command",
      max: COMMAND_CONNECTIONS,
      statementTimeoutMs: COMMAND_TIMEOUT_MS,
    };
    return withPool(options, (pool) => use({ config, pool, databaseUrl: url }));
  });
}
