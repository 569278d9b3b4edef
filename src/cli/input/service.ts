import { migrateAll, openDatabase } from "../../roles/start/openDatabase.ts";
import { makeReloadableConfig } from "../../roles/start/reloadableConfig.ts";
import type { ReloadableConfig, Reloaded } from "../../roles/start/reloadableConfig.ts";
import type { RoleDeps } from "../../roles/role.ts";
import { ALL_GROUPS, readLogin, tellMissingGroups } from "../../database/logins.ts";
import type { Group } from "../../database/logins.ts";
import { assertMigrated } from "../../database/migrations.ts";
import { withPool } from "../../database/database.ts";
import { isConnectionLost } from "../../database/databaseErrors.ts";
import { UnavailableError } from "../../domain/errors.ts";
import { boundHeap } from "../../runtime/lifecycle/boundHeap.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import type { Config } from "../../runtime/config/config.ts";
import { ENV_FILE, ENVIRONMENT, listReadableSecrets } from "../../runtime/config/environment.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import type { LogLevel } from "../../runtime/telemetry/logLevels.ts";
import { makeMetrics } from "../../runtime/telemetry/metrics.ts";
import { makeShutdown } from "../../runtime/lifecycle/shutdown.ts";
import { VERSION } from "../../runtime/version.ts";

const COMMAND_TIMEOUT_MS = 30_000;

/**
 * Runs a long-lived command: opens the database, starts the roles, and runs until a signal. If the start fails, closes
 * everything it opened before it throws.
 */
export async function runService(options: {
  service: string;
  config: Config;
  /** Migrate an older schema instead of refusing it. */
  migrates: boolean;
  logLevel?: LogLevel;
  /**
   * The groups of config/postgres-roles.sql whose rights the process needs; all groups if absent. The process starts
   * without them and logs which rights it lacks.
   */
  groups?: readonly Group[];
  /** Inspects the database before anything changes; an error ends the start. */
  examine?: (databaseUrl: string) => Promise<void>;
  /** Called again on SIGHUP; without it, SIGHUP ends the process, as usual. */
  readAgain?: () => Reloaded;
  start: (deps: RoleDeps, owner: { readonly databaseUrl: string }) => Promise<void>;
}): Promise<void> {
  const { service, config, migrates, start } = options;
  boundHeap();
  const logger = makeLogger({
    level: options.logLevel ?? config.logLevel,
    format: config.logFormat,
    service,
  });
  for (const file of listReadableSecrets(ENVIRONMENT, ENV_FILE)) {
    logger.warn(
      { file },
      "a file with secrets is readable by every account on this machine; run chmod 600 on it",
    );
  }
  const shutdown = makeShutdown({ logger });
  shutdown.listen();
  // As after SIGTERM; the exit code is set where every command's stdout is watched.
  process.stdout.on("error", () => void shutdown.run("stdout was closed").then(() => process.exit()));
  try {
    const database = await openDatabase(config, logger);
    shutdown.onShutdown("database", () => database.close());
    await options.examine?.(database.url);
    if (migrates || database.embedded)
      await migrateAll(database.url, logger, { roles: database.embedded ? "when new" : null });
    else for (const remark of await assertMigrated(database.url)) logger.warn(remark);
    const groups = options.groups ?? ALL_GROUPS;
    const databaseUrl = await database.enterAs(service, groups);
    await tellOfRights({ groups, databaseUrl, logger });
    const metrics = makeMetrics({ version: VERSION });
    const reloadableConfig = options.readAgain && listenForChanges(options.readAgain, { config, logger });
    const clock = systemClock;
    const deps = { config, databaseUrl, clock, logger, shutdown, metrics, reloadableConfig };
    await start(deps, { databaseUrl: database.url });
  } catch (error) {
    // A signal during the start closes resources that the start was using; the resulting error is not a failure of its
    // own.
    if (shutdown.signal.aborted) return;
    await shutdown.run("the start failed");
    if (!isConnectionLost(error)) throw error;
    throw new UnavailableError("A connection was lost during the start.", {
      cause: error,
      fix: "Start the process again; `order-mirror doctor` checks Postgres and the queue.",
    });
  }
}

async function tellOfRights(deps: {
  groups: readonly Group[];
  databaseUrl: string;
  logger: Logger;
}): Promise<void> {
  const options = {
    url: deps.databaseUrl,
    purpose: "rights",
    max: 1,
    statementTimeoutMs: COMMAND_TIMEOUT_MS,
  };
  const login = await withPool(options, readLogin);
  for (const { sentence, fix } of tellMissingGroups(login, deps.groups)) deps.logger.error({ fix }, sentence);
}

function listenForChanges(
  readAgain: () => Reloaded,
  { config, logger }: { config: Config; logger: Logger },
): ReloadableConfig {
  const reloadableConfig = makeReloadableConfig({ config, readAgain, logger });
  process.on("SIGHUP", () => void reloadableConfig.reload());
  return reloadableConfig;
}
