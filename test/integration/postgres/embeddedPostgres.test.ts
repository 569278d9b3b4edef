import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { beforeEach, expect, inject, it, onTestFinished, vi } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import {
  startEmbeddedPostgres,
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
} from "../../../src/postgres/embeddedPostgres.ts";
import { isPidAlive } from "../../../src/process/processLock.ts";
import { findProgram } from "../../support/programs/program.ts";
import { runOnServer } from "../../support/servers/database.ts";
import { copyCluster } from "../../support/servers/ownPostgres.ts";

/** Uses an embedded Postgres: prints its address, and stops using it when its stdin ends. Argument: the data folder. */
const PROGRAM = `
  const { startEmbeddedPostgres } = await import(${JSON.stringify(path.resolve(findProgram(), "../../postgres/embeddedPostgres.js"))});
  const server = await startEmbeddedPostgres({ dataDir: process.argv[1], durable: false });
  process.stdout.write(server.url);
  process.stdin.on("end", () => void server.stop()).resume();`;
const WAIT = { timeout: 60_000, interval: 50 };

let dataDir: string;

beforeEach(async ({ onTestFinished }) => {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-pg-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  // The name has a space, as in "Application Support".
  dataDir = path.join(folder, "data folder");
});

/** A cluster that an ended process has created; creating one takes seconds and is tested elsewhere. */
const setUpBefore = () => copyCluster(inject("postgresTemplate"), dataDir);

/** Starts in this process, by default without automatic restarts, so that a test sees the effect of what it did. */
async function start(options: Partial<EmbeddedPostgresOptions> = {}): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ dataDir, durable: false, revive: false, ...options });
  onTestFinished(server.stop);
  return server;
}

/** Starts in a separate process. */
async function startElsewhere() {
  const child = spawn(process.execPath, ["--input-type=module", "-e", PROGRAM, dataDir], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  const kill = () => {
    child.kill("SIGKILL");
    return ended;
  };
  onTestFinished(async () => void (await kill()));
  const leave = () => {
    child.stdin.end();
    return ended;
  };
  const [output] = (await once(child.stdout, "data")) as [Buffer];
  return { url: output.toString(), leave, kill };
}

const query = async (url: string, sql: string) =>
  String(Object.values((await runOnServer(url, sql))[0] ?? {})[0]);

const pidFile = () => path.join(dataDir, "postgres", "postmaster.pid");
const readPid = async () => Number((await readFile(pidFile(), "utf8")).split("\n")[0]);
const isRunning = (url: string) =>
  query(url, "select 1").then(
    () => true,
    () => false,
  );

/** Kills the server's main process, as the kernel does when memory runs out. */
async function killServer(): Promise<number> {
  const pid = await readPid();
  process.kill(pid, "SIGKILL");
  await vi.waitFor(() => expect(isPidAlive(pid)).toBe(false), WAIT);
  return pid;
}

it("starts in a new folder with UTF-8 and UTC, on 127.0.0.1 only, removes what a killed setup left behind, and stops", async () => {
  await mkdir(path.join(dataDir, "postgres-new-1"), { recursive: true });
  const server = await start();
  expect(existsSync(path.join(dataDir, "postgres-new-1"))).toBe(false);
  const settings =
    "current_setting('server_encoding') || ' ' || current_setting('timezone') || ' ' || current_setting('listen_addresses')";
  expect(await query(server.url, `select ${settings}`)).toBe("UTF8 UTC 127.0.0.1");
  const password = new URL(server.url).password;
  await expect(query(server.url.replace(password, "wrong"), "select 1")).rejects.toThrow(
    "password authentication",
  );
  expect((await stat(path.join(dataDir, "postgres-password"))).mode & 0o077).toBe(0);
  await server.stop();
  await server.stop();
  expect(await isRunning(server.url)).toBe(false);
  expect(existsSync(pidFile())).toBe(false);
});

it("is created once when several processes start at the same time in an empty folder", async () => {
  const children = await Promise.all([startElsewhere(), startElsewhere(), startElsewhere()]);
  const urls = children.map(({ url }) => url);
  expect(new Set(urls).size).toBe(1);
  expect(await isRunning(urls[0] ?? "")).toBe(true);
});

it("outlives the process that started it while another one uses it, and the last one stops it", async () => {
  await setUpBefore();
  const child = await startElsewhere();
  const joined = await start();
  expect(joined.url).toBe(child.url);
  await child.leave();
  expect(await isRunning(joined.url)).toBe(true);
  await joined.stop();
  expect(await isRunning(joined.url)).toBe(false);
});

it("adopts the server of a process that was killed, and then stops it", async () => {
  await setUpBefore();
  const child = await startElsewhere();
  await child.kill();
  expect(await isRunning(child.url)).toBe(true);
  const adopted = await start();
  expect(adopted.url).toBe(child.url);
  await adopted.stop();
  expect(await isRunning(adopted.url)).toBe(false);
});

it("takes over the lock of a process that was killed while it held it, also when another has its number", async () => {
  await setUpBefore();
  const killed = spawn("true");
  await once(killed, "exit");
  // Only where the system shows when a process began.
  const reused = existsSync("/proc/self/stat") ? process.pid : killed.pid;
  for (const pid of [killed.pid, reused]) {
    await writeFile(path.join(dataDir, "postgres-lock"), `${pid}:1:x`);
    expect(await isRunning((await start()).url)).toBe(true);
  }
});

it("survives the stale pid file of a killed server and recovers what was committed", async () => {
  await setUpBefore();
  const first = await start();
  await query(first.url, "create table kept as select 42 as answer");
  await killServer();
  expect(existsSync(pidFile())).toBe(true);
  const second = await start();
  expect(await query(second.url, "select answer from kept")).toBe("42");
});

it("survives a pid file whose pid belongs to another program", async () => {
  await setUpBefore();
  const first = await start();
  const text = await readFile(pidFile(), "utf8");
  await first.stop();
  const stranger = spawn("sleep", ["60"]);
  onTestFinished(() => void stranger.kill("SIGKILL"));
  await writeFile(pidFile(), text.replace(/^\d+/, String(stranger.pid)));
  const second = await start();
  expect(await isRunning(second.url)).toBe(true);
  expect(isPidAlive(stranger.pid!)).toBe(true);
});

it("restarts a server that died, on the same port, and logs it", async () => {
  await setUpBefore();
  const onRevive = vi.fn<() => void>();
  const server = await start({ revive: true, onRevive });
  const pid = await killServer();
  await vi.waitFor(async () => expect(await isRunning(server.url)).toBe(true), WAIT);
  await vi.waitFor(() => expect(onRevive).toHaveBeenCalledTimes(1), WAIT);
  expect(await readPid()).not.toBe(pid);
  await server.stop();
  expect(await isRunning(server.url)).toBe(false);
});

it("reports why the server does not start, and starts once that is mended, syncing to disk", async () => {
  await setUpBefore();
  await expect(start({ settings: ["no_such_setting=1"] })).rejects.toMatchObject({
    name: "UnavailableError",
    message: expect.stringMatching(/could not start: .*no_such_setting/) as unknown,
  });
  const server = await start({ durable: true });
  expect(await query(server.url, "select current_setting('fsync')")).toBe("on");
  // The call that failed does not count as one that uses it.
  await server.stop();
  expect(await isRunning(server.url)).toBe(false);
});

it.each(["starting", "stopping"])("restarts a server that a killed process left %s", async (status) => {
  await setUpBefore();
  const first = await start();
  await writeFile(pidFile(), (await readFile(pidFile(), "utf8")).replace(/ready */, status));
  const pid = await readPid();
  const second = await start();
  expect(second.url).toBe(first.url);
  expect(await isRunning(second.url)).toBe(true);
  expect(await readPid()).not.toBe(pid);
});

it("refuses a cluster whose password is missing, and leaves nothing running", async () => {
  await setUpBefore();
  await (await start()).stop();
  await rm(path.join(dataDir, "postgres-password"));
  await expect(start()).rejects.toThrow(ConfigurationError);
  expect(existsSync(pidFile())).toBe(false);
});

it("reports a folder of another major version of Postgres and changes nothing in it", async () => {
  await setUpBefore();
  await (await start()).stop();
  const file = path.join(dataDir, "postgres", "PG_VERSION");
  const current = await readFile(file, "utf8");
  await writeFile(file, "17\n");
  await expect(start()).rejects.toMatchObject({
    name: "ConfigurationError",
    message: expect.stringMatching(
      /holds data of PostgreSQL 17, and this version of order-mirror brings PostgreSQL \d+\.$/,
    ) as unknown,
    fix: "Run the version of order-mirror that made the folder, or point DATA_DIR at a new one: polling fills it again.",
  });
  await writeFile(file, current);
  await (await start()).stop();
});

it("refuses a folder that is a file", async () => {
  await writeFile(dataDir, "");
  await expect(start()).rejects.toThrow(/^DATA_DIR .* written to: a file stands in its place\.$/);
});
