import { createRequire } from "node:module";
import pg from "pg";
import { bullmq } from "./packages.ts";

/** Schema of the queue's tables if the queue is in Postgres. */
export const QUEUE_SCHEMA = "bullmq";

/** The version of BullMQ, which determines its migrations. */
export const QUEUE_VERSION = (createRequire(import.meta.url)("bullmq/package.json") as { version: string })
  .version;

/** Creates or updates BullMQ's own tables in Postgres. May be repeated and run concurrently. */
export async function migrateQueue(databaseUrl: string): Promise<void> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    await bullmq.runMigrations(client, QUEUE_SCHEMA);
  } finally {
    await client.end();
  }
}
