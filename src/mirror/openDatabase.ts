import { assertReachable } from "../database/explainDatabaseError.ts";
import type { Config } from "../config/config.ts";
import { startEmbeddedPostgres } from "../postgres/embeddedPostgres.ts";
import { makeShutdown, type Shutdown } from "../process/shutdown.ts";
import { makeLogger, type Logger } from "../process/telemetry/logger.ts";

export interface OpenDatabase {
  /** Postgres itself, also where the roles' own connections go through a pooler. */
  readonly url: string;
  readonly embedded: boolean;
  /** Stops the embedded server if this process started it. */
  close(): Promise<void>;
}

/**
 * The database of the configuration: DATABASE_DIRECT_URL, else DATABASE_URL, else the embedded server, started or
 * joined.
 *
 * Throws UnavailableError when it cannot be reached, in one sentence that names host and database but no password.
 */
export async function openDatabase(
  config: Config,
  { signal, logger }: { signal: AbortSignal; logger?: Logger },
): Promise<OpenDatabase> {
  const given = config.databaseDirectUrl ?? config.databaseUrl;
  if (given !== null) {
    await assertReachable(given);
    return { url: given, embedded: false, close: () => Promise.resolve() };
  }
  const server = await startEmbeddedPostgres({
    dataDir: config.dataDir,
    signal,
    onRevive: () => logger?.error("the embedded Postgres had died and was started again"),
  });
  return { url: server.url, embedded: true, close: server.stop };
}

/**
 * Runs a short command with the database of the configuration. What was started for it is stopped after it, and when
 * SIGINT or SIGTERM ends the command.
 */
export async function withDatabase<Result>(
  config: Config,
  use: (database: OpenDatabase, shutdown: Shutdown) => Promise<Result>,
): Promise<Result> {
  const logger = makeLogger({ level: "warn", format: config.logFormat, service: "command" });
  const shutdown = makeShutdown({ logger });
  shutdown.listen();
  try {
    const database = await shutdown.start(async () => {
      const opened = await openDatabase(config, { signal: shutdown.signal });
      shutdown.onShutdown("database", () => opened.close());
      return opened;
    });
    shutdown.signal.throwIfAborted();
    return await use(database, shutdown);
  } finally {
    await shutdown.run("the command has ended");
    shutdown.unlisten();
  }
}
