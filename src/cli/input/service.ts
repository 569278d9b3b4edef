import { migrateAll } from "../../roles/createMirror.ts";
import { openDatabase } from "../../roles/openDatabase.ts";
import { composeMirror } from "../../roles/createMirror.ts";
import type { MirrorDeps } from "../../roles/createMirror.ts";
import type { Parts } from "../../roles/createMirror.ts";
import { answerOnly, serve } from "../../roles/serve.ts";
import type { WebAddress } from "../../roles/serve.ts";
import { provideCredentials } from "../../runtime/config/credentials.ts";
import type { MadeCredentials } from "../../runtime/config/credentials.ts";
import { checkAddress } from "../../runtime/http/checkAddress.ts";
import { listen } from "../../runtime/http/httpServer.ts";
import { ALL_GROUPS, readLogin, tellMissingGroups } from "../../database/logins.ts";
import type { Group } from "../../database/logins.ts";
import { assertMigrated } from "../../database/migrations.ts";
import { withPool } from "../../database/database.ts";
import { isConnectionLost } from "../../database/databaseErrors.ts";
import { UnavailableError } from "../../domain/errors.ts";
import { boundHeap } from "../../runtime/lifecycle/boundHeap.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import type { Config } from "../../runtime/config/config.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import type { LogLevel } from "../../runtime/config/variables.ts";
import { makeShutdown } from "../../runtime/lifecycle/shutdown.ts";
import type { Shutdown } from "../../runtime/lifecycle/shutdown.ts";
import { alignColumns, printNotice } from "../output/terminal.ts";

const COMMAND_TIMEOUT_MS = 30_000;

/** A process with its database, in which a mirror is to start. */
export interface Service extends MirrorDeps {
  readonly databaseUrl: string;
  /** The same database for its owner. */
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
    await start({ config, databaseUrl, ownerUrl: database.url, logger, shutdown });
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

/**
 * Starts these parts of a mirror, with access control: the configured tokens and passwords, or those created at the first
 * start. Serves what it answers at HOST and PORT, or the health of another process at HEALTH_PORT. It ends with the process.
 */
export async function startMirror(service: Service, parts: Parts): Promise<WebAddress | undefined> {
  const { logger, shutdown } = service;
  const isWeb = parts.web !== false;
  const credentials = isWeb ? await provideCredentials(service.config) : undefined;
  const config = credentials?.config ?? service.config;
  const mirror = composeMirror({ ...service, config });
  let server: { close: () => Promise<void> } | undefined;
  // Together: the server takes no new connections while requests under way end.
  shutdown.onShutdown("mirror", async () => void (await Promise.all([mirror.close(), server?.close()])));
  // The ports first: one that is taken ends the start before anything runs. Until the mirror has started, it answers 503.
  const web = isWeb ? await serve(mirror, config, logger) : undefined;
  const { host, healthPort: port, connectionsMax } = config;
  const place = { host, connectionsMax, portVariable: "HEALTH_PORT", clock: systemClock, logger };
  const health =
    isWeb || port === null
      ? undefined
      : await listen(checkAddress(answerOnly(mirror.ops, logger), config), { ...place, port });
  server = web ?? health;
  await mirror.start(parts);
  if (web) logger.info({ url: web.url, webhooks: web.webhooksUrl }, "web is ready");
  if (health) logger.info({ url: health.url }, "health and metrics are served");
  if (credentials?.made) printCredentials(credentials.made, credentials.file);
  return web;
}

const TOKENS_SHOWN = 5;

/** Names new credentials and their file. Shows them once, to a terminal only: a log is read by others, and kept. */
function printCredentials(made: MadeCredentials, file: string): void {
  const tokens = Object.entries(made.apiTokens);
  const rows = [
    ...(made.opsPassword === undefined ? [] : [["operator of /ops", made.opsPassword]]),
    ...(made.opsViewerPassword === undefined ? [] : [["viewer of /ops", made.opsViewerPassword]]),
    ...tokens.slice(0, TOKENS_SHOWN).map(([sourceId, token]) => [`/v1, source ${sourceId}`, token]),
    ...(made.metricsToken === undefined ? [] : [["/metrics", made.metricsToken]]),
  ];
  const isTerminal = process.stderr.isTTY;
  printNotice();
  printNotice("No passwords or tokens are configured, so these were created. They are stored in");
  printNotice(`${file}, which only this account can read.`);
  printNotice();
  for (const line of alignColumns(rows.map(([name = "", secret = ""]) => [name, isTerminal ? secret : ""])))
    printNotice(`  ${line}`);
  if (tokens.length > TOKENS_SHOWN)
    printNotice(`  and those of ${tokens.length - TOKENS_SHOWN} more sources`);
  printNotice();
}
