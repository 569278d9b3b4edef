import type pg from "pg";
import { ConfigurationError, UnavailableError } from "../domain/errors.ts";
import { withClient } from "../database/database.ts";
import { explainDatabaseError } from "../database/explainDatabaseError.ts";
import { prepareLogin, type Group } from "../database/logins.ts";
import type { Config } from "../runtime/config/config.ts";
import { startEmbeddedPostgres } from "../runtime/postgres/embeddedPostgres.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";

/** As server_version_num has it. */
const OLDEST_SERVER = 140_000;
const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 60_000;

export interface OpenDatabase {
  /** Postgres itself, also where the roles' own connections go through a pooler. */
  readonly url: string;
  readonly embedded: boolean;
  /**
   * The same database with the login of a process. In the embedded server the login is created, with the rights of only
   * these groups; elsewhere it is the given one.
   */
  enterAs(process: string, groups: readonly Group[]): Promise<string>;
  /** Stops the embedded server if this process started it. */
  close(): Promise<void>;
}

/**
 * The database of the configuration: DATABASE_DIRECT_URL, else DATABASE_URL, else the embedded server, started or
 * joined.
 *
 * Throws UnavailableError when it cannot be reached, in one sentence that names host and database but no password.
 */
export async function openDatabase(config: Config, logger?: Logger): Promise<OpenDatabase> {
  const given = config.databaseDirectUrl ?? config.databaseUrl;
  if (given !== null) {
    await assertReachable(given);
    return {
      url: given,
      embedded: false,
      enterAs: () => Promise.resolve(given),
      close: () => Promise.resolve(),
    };
  }
  const server = await startEmbeddedPostgres({
    dataDir: config.dataDir,
    onRevive: () => logger?.error("the embedded Postgres had died and was started again"),
  });
  const { url } = server;
  return {
    url,
    embedded: true,
    enterAs: (process, groups) => prepareLogin(url, { name: `mirror_${process}`, groups }),
    close: server.stop,
  };
}

/** Runs `use` with the database of the configuration; what was started for it is stopped after it. */
export async function withDatabase<Result>(
  config: Config,
  use: (database: OpenDatabase) => Promise<Result>,
): Promise<Result> {
  const database = await openDatabase(config);
  try {
    return await use(database);
  } finally {
    await database.close();
  }
}

async function assertReachable(databaseUrl: string): Promise<void> {
  const { host } = new URL(databaseUrl);
  // With a session setting, like our pools: a pooler in transaction mode then refuses it here and not later.
  const place = {
    connectionString: databaseUrl,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
  };
  const read = (client: pg.Client) =>
    client.query<{ version: number }>("select current_setting('server_version_num')::int as version");
  const { rows } = await withClient(place, read).catch((error: unknown) => {
    throw (
      explainDatabaseError(error, databaseUrl) ??
      new UnavailableError(`Postgres at ${host} cannot be reached (${reasonOf(error)}).`, {
        cause: error,
        fix: "Start it, or correct DATABASE_URL.",
      })
    );
  });
  const [server] = rows;
  if (server !== undefined && server.version < OLDEST_SERVER) {
    throw new ConfigurationError(
      `Postgres at ${host} is too old: version ${Math.floor(server.version / 10_000)}.`,
      { fix: "Use PostgreSQL 14 or newer." },
    );
  }
}

function reasonOf(error: unknown): string {
  const code = (error as { code?: unknown }).code;
  if (typeof code === "string") return code;
  return error instanceof Error && error.message !== "" ? error.message : "no reason given";
}
