import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { migrate } from "../../src/database/migrations.ts";
import { migrateQueue } from "../../src/queue/backends/migrateQueue.ts";
import { startEmbeddedPostgres } from "../../src/runtime/postgres/embeddedPostgres.ts";
import { systemClock } from "../../src/runtime/lifecycle/clock.ts";
import { findFreePort } from "../../src/runtime/postgres/freePort.ts";

/** A migrated server of a test's own, to stop, kill and freeze. */
export interface OwnPostgres {
  readonly url: string;
  stop(): Promise<void>;
  /** On the same port, with the same data. */
  start(): Promise<void>;
  /** Ends the server at once, as the system does when memory runs out; resolves when nothing of it is left. */
  kill(): Promise<void>;
  /** Stops every process of the server in its tracks: connections stay open and nothing answers. */
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
  const dataDir = await mkdtemp(path.join(parent, "order-mirror-own-postgres-"));
  const options = { dataDir, port: await findFreePort(), durable: false, revive: false, settings };
  let server = await startEmbeddedPostgres(options);
  const { url } = server;
  await migrate(url);
  await migrateQueue(url);
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
    for (const pid of frozen.splice(0)) signal(pid, "SIGCONT");
  };
  return {
    url,
    stop: () => server.stop(),
    async start() {
      server = await startEmbeddedPostgres(options);
    },
    async kill() {
      const pids = await listPids();
      for (const pid of pids) signal(pid, "SIGKILL");
      while (pids.some(isAlive)) await systemClock.sleep(20);
      await server.stop();
    },
    async freeze() {
      frozen = await listPids();
      for (const pid of frozen) signal(pid, "SIGSTOP");
    },
    thaw,
    async remove() {
      thaw();
      await server.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A backend may have ended since it was listed. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
