import { createRequire } from "node:module";
import { runMigrations } from "bullmq";
import pg from "pg";

/** Schema of the queue's tables when the queue is kept in Postgres. */
export const QUEUE_SCHEMA = "bullmq";

/** Version of BullMQ, which says which of its migrations there are. */
export const QUEUE_VERSION = (createRequire(import.meta.url)("bullmq/package.json") as { version: string })
  .version;

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
