import type { ConnectionOptions, PgPool, PgQueryResult } from "bullmq";
import pg from "pg";
import { CONNECT_TIMEOUT_MS } from "../database/database.ts";
import { ConfigurationError, UnavailableError } from "../domain/errors.ts";
import { withTimeout } from "../process/abort.ts";
import type { QueueServer } from "./queueServer.ts";
import { bullmq } from "./packages.ts";

/** Schema of the queue's tables if the queue is in Postgres. */
const QUEUE_SCHEMA = "bullmq";

/** The version of BullMQ's own tables in Postgres. */
export const QUEUE_VERSION = String(bullmq.LATEST_SCHEMA_VERSION);

/** Creates or updates these tables. May be repeated and run concurrently. */
export async function migrateQueue(client: pg.Client): Promise<void> {
  await bullmq.runMigrations(client, QUEUE_SCHEMA);
}

/** Connections: one listens; the others take, end and lock jobs, each held for one statement only. */
const CONNECTIONS = { queue: 4, worker: 5 };
const STATEMENT_TIMEOUT_MS = 5_000;
/** A frozen server does not end its statements. */
const QUERY_TIMEOUT_MS = 6_000;
const POOL_END_DEADLINE_MS = 1_000;

/** The queue in the schema `bullmq` of the mirror's own database. */
export function usePostgres(databaseUrl: string): QueueServer {
  return {
    classes: bullmq.withBackend(bullmq.createPostgresBackend) as unknown as QueueServer["classes"],
    connect(user) {
      const pool = makeQueuePool(databaseUrl, user, CONNECTIONS[user]);
      // A hanging connection would block `end`.
      const cut = async () => void (await withTimeout(pool.end(), POOL_END_DEADLINE_MS));
      return {
        options: { connection: toPgPool(pool) as unknown as ConnectionOptions },
        isReachable: () => true,
        begin: (wait) => waitForDatabase(wait, cut),
        // Whoever checks reads the same database.
        check: () => Promise.resolve([]),
        cut,
      };
    },
  };
}

/** BullMQ caches a failed first check forever and would never work again, so a queue begins with one that succeeded. */
async function waitForDatabase(wait: () => Promise<unknown>, cut: () => Promise<void>): Promise<void> {
  try {
    await wait();
  } catch (error) {
    await cut();
    const isOther =
      error instanceof bullmq.SchemaMigrationRequiredError ||
      error instanceof bullmq.SchemaVersionMismatchError;
    if (!isOther) throw new UnavailableError("The queue's database does not answer.", { cause: error });
    throw new ConfigurationError("The queue's tables in Postgres are missing or have another version.", {
      cause: error,
      fix: "Run `order-mirror migrate`.",
    });
  }
}

/**
 * Our own pool, with the schema in its address: BullMQ sets none for a given pool.
 *
 * Its commits do not wait for the disk: a job represents what the inbox stores durably. The overdue check replaces a
 * job lost in a crash, and a repeated job finds its events decided.
 */
function makeQueuePool(databaseUrl: string, user: "queue" | "worker", max: number): pg.Pool {
  const url = new URL(databaseUrl);
  // Options in the address override the driver's settings, so they are merged there.
  const given = url.searchParams.get("options") ?? "";
  url.searchParams.set("options", `${given} -c search_path=${QUEUE_SCHEMA} -c synchronous_commit=off`.trim());
  const pool = new pg.Pool({
    connectionString: url.href,
    application_name: `order-mirror queue${user === "worker" ? " worker" : ""}`,
    max,
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
  });
  // A broken idle connection is replaced at its next use; without a listener it would end the process.
  pool.on("error", () => undefined);
  return pool;
}

/**
 * The pool as BullMQ uses it. Its fixed statements are prepared: they would be planned each time, a quarter of a job's
 * cost in Postgres.
 */
function toPgPool(pool: pg.Pool): PgPool {
  const names = new Map<string, string>();
  function query(text: string, values: readonly unknown[] = []): Promise<PgQueryResult> {
    const name = names.get(text) ?? `queue-${names.size}`;
    names.set(text, name);
    return pool.query({ name, text, values: [...values] });
  }
  const { options } = pool;
  // The driver's own types differ from BullMQ's description of them.
  return {
    query,
    options,
    connect: () => pool.connect(),
    end: () => pool.end(),
    on: pool.on.bind(pool),
  } as unknown as PgPool;
}
