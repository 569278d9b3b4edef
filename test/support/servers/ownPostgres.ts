import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { inject } from "vitest";
import { startEmbeddedPostgres } from "../../../src/postgres/embeddedPostgres.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { withDatabase } from "./createDatabase.ts";
import { TEMPLATE_DATABASE } from "./database.ts";
import { sendSignal } from "./processes.ts";

/** A migrated server for one test, to stop, kill and freeze. */
export interface OwnPostgres {
  readonly url: string;
  readonly dataDir: string;
  /** What the server has written to its log so far. */
  readLog(): Promise<string>;
  stop(): Promise<void>;
  /** On the same port, with the same data. */
  start(): Promise<void>;
  /** Kills the server, as the system does when memory runs out; resolves when all its processes have ended. */
  kill(): Promise<void>;
  /** Freezes every process of the server: connections stay open and nothing answers. */
  freeze(): Promise<void>;
  thaw(): void;
  /** Stops the server and removes its data. */
  remove(): Promise<void>;
}

/** `parent` is the folder to keep its data in, by default that for temporary files. */
export async function startOwnPostgres({
  parent = tmpdir(),
  settings = [],
}: { parent?: string; settings?: readonly string[] } = {}): Promise<OwnPostgres> {
  const home = await mkdtemp(path.join(parent, "order-mirror-own-postgres-"));
  await copyCluster(inject("postgresTemplate"), path.join(home, "server"));
  return openOwnPostgres({ home, settings });
}

/** The same with the data that is in the folder `server` of `home`, which is removed in the end. */
export async function openOwnPostgres({
  home,
  settings = [],
}: {
  home: string;
  settings?: readonly string[];
}): Promise<OwnPostgres> {
  const dataDir = path.join(home, "server");
  const options = { dataDir, port: await findFreePort(), durable: false, revive: false, settings };
  let server = await startEmbeddedPostgres(options);
  const url = withDatabase(server.url, TEMPLATE_DATABASE);
  let frozen: number[] = [];

  async function listPids(): Promise<number[]> {
    const client = new pg.Client(url);
    await client.connect();
    const { rows } = await client.query<{ pid: number }>(
      "select pid from pg_stat_activity where pid <> pg_backend_pid()",
    );
    await client.end();
    const file = await readFile(path.join(dataDir, "postgres", "postmaster.pid"), "utf8");
    return [Number(file.split("\n")[0]), ...rows.map((row) => row.pid)];
  }
  const thaw = () => {
    for (const pid of frozen.splice(0)) sendSignal(pid, "SIGCONT");
  };
  return {
    url,
    dataDir,
    readLog: () => readFile(path.join(dataDir, "postgres", "server.log"), "utf8"),
    stop: () => server.stop(),
    async start() {
      server = await startEmbeddedPostgres(options);
    },
    async kill() {
      const pids = await listPids();
      for (const pid of pids) sendSignal(pid, "SIGKILL");
      while (pids.some(isAlive)) await systemClock.sleep(20);
      await server.stop();
    },
    async freeze() {
      frozen = await listPids();
      for (const pid of frozen) sendSignal(pid, "SIGSTOP");
    },
    thaw,
    async remove() {
      thaw();
      await server.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** Copies the data folder of a stopped server, with owners and rights: much faster than a setup and all migrations. */
export async function copyCluster(from: string, to: string): Promise<void> {
  await promisify(execFile)("cp", ["-a", from, to]);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
