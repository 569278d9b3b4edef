import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestProject } from "vitest/node";
import { migrate } from "../../src/mirror/migrations.ts";
import { startEmbeddedPostgres } from "../../src/runtime/embeddedPostgres.ts";
import { migrateQueue } from "../../src/queue/migrateQueue.ts";
import { createDatabase, withDatabase } from "./createDatabase.ts";
import { TEMPLATE_DATABASE } from "./database.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** Superuser connection string of the test server's database `postgres`. */
    postgresUrl: string;
  }
}

/** One Postgres server for all files of a run, and in it a migrated template database that each file clones. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-test-"));
  const postgres = await startEmbeddedPostgres({ dataDir, durable: false });
  await createDatabase(postgres.url, TEMPLATE_DATABASE);
  const templateUrl = withDatabase(postgres.url, TEMPLATE_DATABASE);
  await migrate(templateUrl);
  await migrateQueue(templateUrl);
  project.provide("postgresUrl", postgres.url);
  return async () => {
    await postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
}
