import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";
import { migrate } from "../../../src/database/migrations.ts";
import { withClient } from "../../../src/database/database.ts";
import { migrateQueue } from "../../../src/queue/postgresServer.ts";
import { startEmbeddedPostgres } from "../../../src/postgres/embeddedPostgres.ts";
import { createDatabase, withDatabase, TEMPLATE_DATABASE } from "../servers/database.ts";
import { copyCluster } from "../servers/ownPostgres.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** Superuser connection strings of the test servers' database `postgres`, one for each worker. */
    postgresUrls: readonly string[];
    /** Data folder of a stopped server with the template database, to be copied. */
    postgresTemplate: string;
  }
}

interface Servers {
  readonly urls: readonly string[];
  readonly template: string;
  remove(): Promise<void>;
}

const ROOT = path.resolve(import.meta.dirname, "../../..");
const TSC = "node_modules/typescript/bin/tsc";
/** Vitest loads this file again for each project of a run. */
const run = globalThis as { servers?: Promise<Servers>; projects?: number };

/**
 * What all projects of a run share: the built program, and a Postgres server per worker, with a migrated template database
 * that each file clones. Workers cannot share a server: what a snapshot sees, and so what the change feed may show, waits
 * for transactions of the whole server, including those that a test in another database holds open.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const workers = project.config.maxWorkers ?? project.vitest.config.maxWorkers ?? 1;
  run.projects = (run.projects ?? 0) + 1;
  const servers = await (run.servers ??= start(workers));
  project.provide("postgresUrls", servers.urls);
  project.provide("postgresTemplate", servers.template);
  return async () => {
    run.projects = (run.projects ?? 1) - 1;
    if (run.projects > 0) return;
    delete run.servers;
    await servers.remove();
  };
}

async function start(workers: number): Promise<Servers> {
  const [servers] = await Promise.all([startServers(workers), build()]);
  return servers;
}

/**
 * Leaves the check of types, two thirds of a build, to `npm run lint`. A build failure fails only the tests that start the
 * program (see findProgram); the others run.
 */
async function build(): Promise<void> {
  try {
    await promisify(execFile)("node", [TSC, "-p", "tsconfig.build.json", "--noCheck"], { cwd: ROOT });
  } catch (error) {
    process.env["BUILD_FAILURE"] = (error as { stdout?: string }).stdout || String(error);
  }
}

async function startServers(count: number): Promise<Servers> {
  const home = await mkdtemp(path.join(tmpdir(), "order-mirror-test-"));
  const template = path.join(home, "template");
  const first = await startEmbeddedPostgres({ dataDir: template, durable: false });
  await createDatabase(first.url, TEMPLATE_DATABASE);
  const templateUrl = withDatabase(first.url, TEMPLATE_DATABASE);
  await migrate(templateUrl);
  await withClient(templateUrl, migrateQueue);
  await first.stop();
  // Passwords of other roles are asked for. Proving that one knows it costs half of the client's part of a connection.
  const rules = path.join(template, "postgres/pg_hba.conf");
  await writeFile(rules, `host all postgres 127.0.0.1/32 trust\n${await readFile(rules, "utf8")}`);
  const servers = await Promise.all(
    Array.from({ length: count }, async (_, place) => {
      const dataDir = path.join(home, String(place));
      await copyCluster(template, dataDir);
      return startEmbeddedPostgres({ dataDir, durable: false });
    }),
  );
  return {
    urls: servers.map(({ url }) => url),
    template,
    async remove() {
      await Promise.all(servers.map((server) => server.stop()));
      await rm(home, { recursive: true, force: true });
    },
  };
}
