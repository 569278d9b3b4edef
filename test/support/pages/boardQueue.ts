import { createPostgresBackend, withBackend } from "bullmq";
import type { PostgresConnectionOptions } from "bullmq";
import pg from "pg";
import { QUEUE_SCHEMA } from "../../../src/queue/backends/migrateQueue.ts";

/** A BullMQ queue of the test's own in the migrated database, without a worker. */
export async function openBoardQueue(databaseUrl: string, name: string) {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: 2,
    options: `-c search_path=${QUEUE_SCHEMA}`,
  });
  pool.on("error", () => undefined);
  const { Queue } = withBackend(createPostgresBackend);
  const queue = new Queue(name, { connection: pool as unknown as PostgresConnectionOptions });
  await queue.waitUntilReady();
  const close = async () => {
    await queue.close();
    await pool.end();
  };
  return { queue, close };
}
