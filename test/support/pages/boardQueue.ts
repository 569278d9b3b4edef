import {
  createPostgresBackend,
  UnrecoverableError,
  withBackend,
  type PostgresConnectionOptions,
  type Queue as AnyQueue,
} from "bullmq";
import pg from "pg";
import { expect } from "vitest";
import { QUEUE_SCHEMA } from "../../../src/queue/postgresServer.ts";

/** A BullMQ queue of the test's own in the migrated database, without a worker. */
export async function openBoardQueue(databaseUrl: string, name: string) {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: 2,
    options: `-c search_path=${QUEUE_SCHEMA}`,
  });
  pool.on("error", () => undefined);
  const { Queue, Worker } = withBackend(createPostgresBackend);
  const connection = pool as unknown as PostgresConnectionOptions;
  const queue = new Queue(name, { connection });
  await queue.waitUntilReady();
  /** Works off the waiting jobs: each fails for good, for this reason. */
  const failAll = async (reason: string) => {
    const fail = () => Promise.reject(new UnrecoverableError(reason));
    const worker = new Worker(name, fail, { connection });
    await expect.poll(() => queue.getWaitingCount(), { timeout: 60_000 }).toBe(0);
    await worker.close();
  };
  const close = async () => {
    await queue.close();
    await pool.end();
  };
  // As the product sees it, whatever its backend.
  return { queue: queue as unknown as AnyQueue, failAll, close };
}
