import { ALL_ADDRESSES, composeMirror, migrateAll, type MirrorDeps, type Parts } from "./createMirror.ts";
import { openDatabase } from "./openDatabase.ts";
import { answerOnly, serve, type WebAddress } from "./serve.ts";
import { provideCredentials, type MadeCredentials } from "../config/credentials.ts";
import { checkAddress } from "../process/checkAddress.ts";
import { listen } from "../process/httpServer.ts";
import {
  ALL_GROUPS,
  prepareLogin,
  readLogin,
  describeMissingGroups,
  type Group,
} from "../database/logins.ts";
import { assertMigrated } from "../database/migrations.ts";
import { withPool } from "../database/database.ts";
import { isConnectionLost } from "../database/databaseErrors.ts";
import { UnavailableError } from "../domain/errors.ts";
import { boundHeap } from "../process/boundHeap.ts";
import { systemClock } from "../process/clock.ts";
import type { Config } from "../config/config.ts";
import { ENVIRONMENT, listUnknownVariables } from "../config/environment.ts";
import { makeLogger, type LogLevel } from "../process/telemetry/logger.ts";
import { makeShutdown, type Shutdown } from "../process/shutdown.ts";

const RIGHTS_POOL = { purpose: "rights", max: 1, statementTimeoutMs: 30_000 };

/** A process with its database, in which a mirror is to start. */
export interface Service extends MirrorDeps {
  readonly databaseUrl: string;
  /** Its database, as the owner of the schema. */
  readonly ownerUrl: string;
  readonly shutdown: Shutdown;
}

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
  start: (service: Service) => Promise<unknown>;
}): Promise<void> {
  const { service, config, migrates, start } = options;
  boundHeap();
  const logger = makeLogger({
    level: options.logLevel ?? config.logLevel,
    format: config.logFormat,
    service,
  });
  for (const unknown of listUnknownVariables(ENVIRONMENT)) logger.warn(`${unknown} It has no effect.`);
  const shutdown = makeShutdown({ logger });
  shutdown.listen();
  // As after SIGTERM; the exit code is set where every command's stdout is watched.
  process.stdout.on("error", () => void shutdown.run("stdout was closed").then(() => process.exit()));
  const { signal } = shutdown;
  try {
    await shutdown.start(async () => {
      const database = await openDatabase(config, { signal, logger });
      shutdown.onShutdown("database", () => database.close());
      signal.throwIfAborted();
      await options.examine?.(database.url);
      if (migrates || database.embedded)
        await migrateAll(database.url, logger, { roles: database.embedded ? "when new" : null, signal });
      else for (const remark of await assertMigrated(database.url)) logger.warn(remark);
      const groups = options.groups ?? ALL_GROUPS;
      signal.throwIfAborted();
      // Elsewhere the given login is the process's own.
      const databaseUrl = database.embedded
        ? await prepareLogin(database.url, { name: `mirror_${service}`, groups })
        : database.url;
      const login = await withPool({ url: databaseUrl, ...RIGHTS_POOL }, readLogin);
      for (const { sentence, fix } of describeMissingGroups(login, groups)) logger.error({ fix }, sentence);
      signal.throwIfAborted();
      await start({ config, databaseUrl, ownerUrl: database.url, logger, shutdown });
    });
  } catch (error) {
    // A signal ends the start between two steps; that is no failure.
    if (shutdown.signal.aborted) return;
    await shutdown.run("the start failed");
    if (!isConnectionLost(error)) throw error;
    throw new UnavailableError("A connection was lost during the start.", {
      cause: error,
      fix: "Start the process again; `order-mirror doctor` checks Postgres and the queue.",
    });
  }
}

/**
 * Starts these parts of a mirror, with access control: the configured tokens and passwords, or those created at the
 * first start. Serves what it answers at HOST and PORT, or the health of another process at HEALTH_PORT. It ends with
 * the process.
 */
export async function startMirror(
  service: Service,
  parts: Parts,
  /** Told of credentials that were created now, and of their file. */
  onCredentials?: (made: MadeCredentials, file: string) => void,
): Promise<WebAddress | undefined> {
  const { logger, shutdown } = service;
  const isWeb = parts.web !== false;
  const credentials = isWeb ? await provideCredentials(service.config) : undefined;
  const config = credentials?.config ?? service.config;
  const mirror = composeMirror({ ...service, config }, ALL_ADDRESSES);
  let server: { close: () => Promise<void> } | undefined;
  // Together: the server takes no new connections while requests under way end.
  shutdown.onShutdown("mirror", async () => void (await Promise.all([mirror.close(), server?.close()])));
  // The ports first: one that is taken ends the start before anything runs. Until the mirror has started, it answers
  // 503.
  const web = isWeb ? await serve(mirror, config, logger) : undefined;
  const { host, healthPort: port } = config;
  const place = { host, portVariable: "HEALTH_PORT", clock: systemClock, logger };
  const health =
    isWeb || port === null
      ? undefined
      : await listen(checkAddress(answerOnly([mirror.probes], logger), config), { ...place, port });
  server = web ?? health;
  await mirror.start(parts);
  if (web) logger.info({ url: web.url, webhooks: web.webhooksUrl }, "web is ready");
  if (health) logger.info({ url: health.url }, "health and metrics are served");
  if (credentials?.made) onCredentials?.(credentials.made, credentials.file);
  return web;
}
