import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, appendFile, chown, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { expect, inject, vi } from "vitest";
import { startEmbeddedPostgres } from "../../../src/postgres/embeddedPostgres.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { withDatabase, TEMPLATE_DATABASE, runOnServer } from "./database.ts";

const run = promisify(execFile);

export type OwnPostgres = Awaited<ReturnType<typeof openOwnPostgres>>;

/** A migrated server for one test, to stop, kill and freeze. `parent` is the folder to keep its data in, by default that for temporary files. */
export async function startOwnPostgres({
  parent = tmpdir(),
  settings = [],
}: { parent?: string; settings?: readonly string[] } = {}) {
  const home = await mkdtemp(path.join(parent, "order-mirror-own-postgres-"));
  await copyCluster(inject("postgresTemplate"), path.join(home, "server"));
  return openOwnPostgres(home, settings);
}

/** The same with the data that is in the folder `server` of `home`, which is removed in the end. */
async function openOwnPostgres(home: string, settings: readonly string[] = []) {
  const dataDir = path.join(home, "server");
  const options = { dataDir, port: await findFreePort(), durable: false, revive: false, settings };
  let server = await startEmbeddedPostgres(options);
  const url = withDatabase(server.url, TEMPLATE_DATABASE);
  let frozen: number[] = [];

  async function listPids(): Promise<number[]> {
    const rows = await runOnServer(url, "select pid from pg_stat_activity where pid <> pg_backend_pid()");
    const file = await readFile(path.join(dataDir, "postgres", "postmaster.pid"), "utf8");
    return [Number(file.split("\n")[0]), ...rows.map((row) => Number(row["pid"]))];
  }
  const thaw = () => {
    for (const pid of frozen.splice(0)) sendSignal(pid, "SIGCONT");
  };
  return {
    url,
    dataDir,
    /** What the server has written to its log so far. */
    readLog: () => readFile(path.join(dataDir, "postgres", "server.log"), "utf8"),
    stop: () => server.stop(),
    /** On the same port, with the same data. */
    async start() {
      server = await startEmbeddedPostgres(options);
    },
    /** Kills the server, as the system does when memory runs out; resolves when all its processes have ended. */
    async kill() {
      const pids = await listPids();
      for (const pid of pids) sendSignal(pid, "SIGKILL");
      while (pids.some((pid) => sendSignal(pid, 0))) await systemClock.sleep(20);
      await server.stop();
    },
    /** Freezes every process of the server: connections stay open and nothing answers. */
    async freeze() {
      frozen = await listPids();
      for (const pid of frozen) sendSignal(pid, "SIGSTOP");
    },
    thaw,
    /** Stops the server and removes its data. */
    async remove() {
      thaw();
      await server.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** Sends a signal; false if the process has ended. */
function sendSignal(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    return false;
  }
}

/** Copies the data folder of a stopped server, with owners and rights: much faster than a setup and all migrations. */
export async function copyCluster(from: string, to: string): Promise<void> {
  await run("cp", ["-a", from, to]);
}

/**
 * Backs up the files of a running server as pg_basebackup does, which npm's binaries do not include. A server that is
 * started in `to` recovers from the backup as `signal` says, with these settings.
 */
export async function backUp(options: {
  url: string;
  /** Data folders as startEmbeddedPostgres knows them. */
  from: string;
  to: string;
  signal: "recovery.signal" | "standby.signal";
  settings: Readonly<Record<string, string>>;
}): Promise<void> {
  const { url, from, to, signal, settings } = options;
  const client = new pg.Client(url);
  await client.connect();
  await client.query("select pg_backup_start('test', true)");
  await run("cp", ["-a", from, to]).catch((error: { stderr?: string }) => {
    // Files of the running server come and go; the WAL has their content.
    if (!/cannot (stat|open)/.test(error.stderr ?? "")) throw error as Error;
  });
  const { rows } = await client.query<{ labelfile: string }>("select labelfile from pg_backup_stop(false)");
  await run("cp", ["-a", `${from}/postgres/pg_wal/.`, `${to}/postgres/pg_wal/`]);
  await client.end();
  const cluster = path.join(to, "postgres");
  await rm(path.join(cluster, "postmaster.pid"), { force: true });
  await rm(path.join(to, "postgres-users"), { recursive: true, force: true });
  await writeFile(path.join(cluster, "backup_label"), rows[0]?.labelfile ?? "");
  await writeFile(path.join(cluster, signal), "");
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
  await appendFile(path.join(cluster, "postgresql.auto.conf"), lines.join(""));
  const { uid, gid } = await stat(cluster);
  for (const name of ["backup_label", signal]) await chown(path.join(cluster, name), uid, gid);
}

/** A hot standby of a running server. After its promotion, it does not wait for a standby. */
export async function startStandby(primary: OwnPostgres) {
  const home = await mkdtemp(path.join(tmpdir(), "order-mirror-standby-"));
  const { hostname, port, username, password } = new URL(primary.url);
  await backUp({
    url: primary.url,
    from: primary.dataDir,
    to: path.join(home, "server"),
    signal: "standby.signal",
    settings: {
      primary_conninfo: `host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`,
      synchronous_standby_names: "",
    },
  });
  return openOwnPostgres(home);
}

/** From now on each commit of the server waits until its standby has it; resolves when the standby keeps up. */
export async function waitForStandby(primary: OwnPostgres): Promise<void> {
  await runOnServer(primary.url, "alter system set synchronous_standby_names = '*'");
  await runOnServer(primary.url, "select pg_reload_conf()");
  const keepsUp = async () => {
    const states = await runOnServer(primary.url, "select sync_state from pg_stat_replication");
    expect(states).toEqual([{ sync_state: "sync" }]);
  };
  await vi.waitFor(keepsUp, { timeout: 600_000, interval: 50 });
}

/** Makes the standby a primary; resolves when it takes writes. */
export async function promote(standby: OwnPostgres): Promise<void> {
  expect(await runOnServer(standby.url, "select pg_promote(true, 60) as promoted")).toEqual([
    { promoted: true },
  ]);
}
