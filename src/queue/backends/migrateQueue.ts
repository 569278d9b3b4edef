import { runMigrations } from "bullmq";
import pg from "pg";

/** Schema of the queue's tables when the queue is kept in Postgres. */
export const QUEUE_SCHEMA = "bullmq";

/** Creates or updates BullMQ's own tables in Postgres. Safe to run again, and from several processes at once. */
export async function migrateQueue(databaseUrl: string): Promise<void> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    await runMigrations(client, QUEUE_SCHEMA);
  } finally {
    await client.end();
  }
}
