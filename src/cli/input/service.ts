import type { Command } from "commander";
import { composeMirror, migrateAll, type MirrorDeps, type Parts } from "../../mirror/createMirror.ts";
import { openDatabase } from "../../mirror/openDatabase.ts";
import { answerOnly, serve, type WebAddress } from "../../mirror/serve.ts";
import { provideCredentials, type MadeCredentials } from "../../config/credentials.ts";
import { checkAddress } from "../../process/checkAddress.ts";
import { listen } from "../../process/httpServer.ts";
import {
  ALL_GROUPS,
  listNeededGroups,
  readLogin,
  tellMissingGroups,
  type Group,
} from "../../database/logins.ts";
import { assertMigrated } from "../../database/migrations.ts";
import { withPool } from "../../database/database.ts";
import { isConnectionLost } from "../../database/databaseErrors.ts";
import { UnavailableError } from "../../domain/errors.ts";
import { boundHeap } from "../../process/boundHeap.ts";
import { systemClock } from "../../process/clock.ts";
import { requireSources, type Config } from "../../config/config.ts";
import { ENVIRONMENT, listUnknownVariables } from "../../config/environment.ts";
import { makeLogger, type LogLevel } from "../../process/telemetry/logger.ts";
import { makeShutdown, type Shutdown } from "../../process/shutdown.ts";
import { readConfig } from "./session.ts";
import { alignColumns, printNotice } from "../output/terminal.ts";

const RIGHTS_POOL = { purpose: "rights", max: 1, statementTimeoutMs: 30_000 };

/**
 * `up`, `web`, `worker`, `poller`: the parts of the product, in one process or several.
 */
export function register(program: Command): void {
  for (const service of Object.keys(ROLES) as Role[])
    program
      .command(service)
      .description(ROLES[service].description)
      .action(() => runRole(service));
}

/** The role that is exposed to strangers holds no provider key that it does not use. */
const ROLES = {
  up: {
    description: "run everything in one process: webhooks, worker, poller, read API, ops",
    parts: { worker: true, poller: true },
    keysFor: "reading",
  },
  web: {
    description: "run the web process: webhooks, read API, ops pages",
    parts: {},
    keysFor: "writing",
  },
  worker: {
    description: "run a worker: applies events to the mirror",
    parts: { web: false, worker: true },
    keysFor: "nothing",
  },
  poller: {
    description: "run a poller: reads what events lost; one of several leads",
    parts: { web: false, poller: true },
    keysFor: "reading",
  },
} as const;
type Role = keyof typeof ROLES;

function runRole(service: Role): Promise<void> {
  const { parts, keysFor } = ROLES[service];
  const migrates = service === "up";
  const config = readConfig();
  requireSources(config, keysFor);
  const groups = listNeededGroups(service, { writesThrough: config.writeThrough });
  const start = (own: Service) => startMirror(own, parts);
  return runService({ service, config, migrates, groups, start });
}

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
  try {
    const database = await openDatabase(config, logger);
    shutdown.onShutdown("database", () => database.close());
    await options.examine?.(database.url);
    if (migrates || database.embedded)
      await migrateAll(database.url, logger, { roles: database.embedded ? "when new" : null });
    else for (const remark of await assertMigrated(database.url)) logger.warn(remark);
    const groups = options.groups ?? ALL_GROUPS;
    const databaseUrl = await database.enterAs(service, groups);
    const login = await withPool({ url: databaseUrl, ...RIGHTS_POOL }, readLogin);
    for (const { sentence, fix } of tellMissingGroups(login, groups)) logger.error({ fix }, sentence);
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

/**
 * Starts these parts of a mirror, with access control: the configured tokens and passwords, or those created at the
 * first start. Serves what it answers at HOST and PORT, or the health of another process at HEALTH_PORT. It ends with
 * the process.
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
  if (credentials?.made) printCredentials(credentials.made, credentials.file);
  return web;
}

/** Names new credentials and their file. Shows them once, to a terminal only: a log is read by others, and kept. */
function printCredentials(made: MadeCredentials, file: string): void {
  const rows: (readonly [name: string, secret: string | undefined])[] = [
    ["operator of /ops", made.opsPassword],
    ["viewer of /ops", made.opsViewerPassword],
    ...Object.entries(made.apiTokens).map(([sourceId, token]) => [`/v1, source ${sourceId}`, token] as const),
    ["/metrics", made.metricsToken],
  ];
  const isTerminal = process.stderr.isTTY;
  const shown = rows.flatMap(([name, secret]) =>
    secret === undefined ? [] : [[name, isTerminal ? secret : ""]],
  );
  printNotice("\nNo passwords or tokens are configured, so these were created. They are stored in");
  printNotice(`${file}, which only this account can read.\n`);
  for (const line of alignColumns(shown)) printNotice(`  ${line}`);
  printNotice();
}
