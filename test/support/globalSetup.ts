import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestProject } from "vitest/node";
import { migrate } from "../../src/database/migrations.ts";
import { startEmbeddedPostgres } from "../../src/runtime/postgres/embeddedPostgres.ts";
import { migrateQueue } from "../../src/queue/backends/migrateQueue.ts";
import { createDatabase, withDatabase } from "./createDatabase.ts";
import { TEMPLATE_DATABASE } from "./database.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** Superuser connection strings of the test servers' database `postgres`, one for each worker. */
    postgresUrls: readonly string[];
  }
}

/**
 * A Postgres server for each worker of a run, and in it a migrated template database that each file clones. Workers
 * cannot share one: what a snapshot sees, and so what the change feed may show, waits for transactions of the whole
 * server, also for those that a test in another database holds open.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const workers = project.config.maxWorkers ?? project.vitest.config.maxWorkers ?? 1;
  const servers = await Promise.all(Array.from({ length: workers }, startServer));
  project.provide(
    "postgresUrls",
    servers.map(({ url }) => url),
  );
  return async () => void (await Promise.all(servers.map(({ remove }) => remove())));
}

async function startServer(): Promise<{ url: string; remove: () => Promise<void> }> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-test-"));
  const postgres = await startEmbeddedPostgres({ dataDir, durable: false });
  await createDatabase(postgres.url, TEMPLATE_DATABASE);
  const templateUrl = withDatabase(postgres.url, TEMPLATE_DATABASE);
  await migrate(templateUrl);
  await migrateQueue(templateUrl);
  return {
    url: postgres.url,
    async remove() {
      await postgres.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
