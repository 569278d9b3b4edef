import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterEach, expect, it, onTestFinished, vi } from "vitest";
import { startEmbeddedPostgres } from "../../../src/postgres/embeddedPostgres.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { followFeed } from "../../support/mirror/served.ts";
import { runProgram, startRole, stopPrograms } from "../../support/programs/program.ts";
import { startFaultProvider } from "../../support/providers/faultProvider.ts";
import {
  createDatabase,
  makeEmptyDatabase,
  runOnServer,
  withDatabase,
} from "../../support/servers/database.ts";
import { hasDebianPostgres, startDebianPostgres } from "../../support/servers/debianPostgres.ts";
import { backUp } from "../../support/servers/ownPostgres.ts";

const run = promisify(execFile);
const PATIENCE = { timeout: 120_000, interval: 100 };
// oxlint-disable-next-line no-console -- whoever runs the tests must know what they did not prove
if (!hasDebianPostgres) console.warn("NOT RUN: the move to another major of Postgres; install postgresql.");

afterEach(stopPrograms);

const majorOf = async (url: string) =>
  Math.floor(
    Number(
      (await runOnServer(url, "select current_setting('server_version_num') as version"))[0]?.["version"],
    ) / 10_000,
  );

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-restore-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A mirror of a provider with traffic, on the server at `databaseUrl`, and a reader of its feed. */
async function startMirror(databaseUrl: string) {
  const provider = await startFaultProvider({ seed: 5, speed: 40, trafficPerMinute: 240 });
  onTestFinished(() => provider.close());
  const port = await findFreePort();
  const startUp = (url: string) =>
    startRole("up", { ...provider.env, DATABASE_URL: url, PORT: String(port) });
  const before = await startUp(databaseUrl);
  await provider.sendEventsTo(`http://127.0.0.1:${port}/webhooks/live`);
  const follower = followFeed(`http://127.0.0.1:${port}`);
  onTestFinished(() => follower.stop());
  const untilRead = async (more: number) => {
    const read = follower.changes.length;
    await vi.waitUntil(() => follower.changes.length > read + more, PATIENCE);
  };
  await untilRead(30);
  /** On another server; resolves when its orders are the provider's, and the reader has the whole feed. */
  const goOn = async (url: string) => {
    await startUp(url);
    await untilRead(10);
    await provider.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
    const truth = [...(await provider.readTruth())].map(
      ([key, order]) => `${key} ${String(order["status"])}`,
    );
    const differing = async () => {
      const rows = await runOnServer(
        url,
        "select concat_ws(' ', reference, status) as has from mirror.orders",
      );
      return truth.filter((order) => !rows.some(({ has }) => has === order));
    };
    await expect.poll(differing, PATIENCE).toEqual([]);
    await expect.poll(() => follower.listMissed((sql) => runOnServer(url, sql)), PATIENCE).toEqual([]);
    expect(follower.refusals).toEqual([]);
  };
  return { before, follower, untilRead, goOn };
}

/** Dumps the database and restores it into a newer major. */
async function dumpAndRestore(oldUrl: string): Promise<string> {
  const { url: newUrl } = await makeEmptyDatabase();
  expect(await majorOf(oldUrl)).toBeLessThan(await majorOf(newUrl));
  const dump = path.join(await makeFolder(), "mirror.dump");
  await run("pg_dump", [oldUrl, "--format", "custom", "--file", dump]);
  const restore = ["--exit-on-error", "--no-owner", "--no-privileges", "--dbname", newUrl, dump];
  await run("pg_restore", restore);
  return newUrl;
}

it.runIf(hasDebianPostgres)(
  "dumped and restored into a newer major of Postgres, the mirror goes on, and readers of the feed behind where they were",
  async () => {
    const old = await startDebianPostgres();
    onTestFinished(() => old.remove());
    await createDatabase(old.url, "mirror");
    const oldUrl = withDatabase(old.url, "mirror");
    expect((await runProgram(["migrate"], { DATABASE_URL: oldUrl })).code).toBe(0);
    const { before, follower, goOn } = await startMirror(oldUrl);
    await before.stop();

    const positions = (url: string) =>
      runOnServer(url, "select position, reference, revision from mirror.changes order by position");
    const moved = await positions(oldUrl);
    const newUrl = await dumpAndRestore(oldUrl);
    expect(await positions(newUrl)).toEqual(moved);
    await goOn(newUrl);
    // Each once: nothing was renumbered, and no reader had to start again.
    expect(follower.changes.length).toBe(new Set(follower.changes).size);
  },
);

it("restored from a backup, the mirror polls from its cursors on, and a reader that has seen what was lost goes on, too", async () => {
  const folder = await makeFolder();
  const [liveDir, copyDir] = [path.join(folder, "live"), path.join(folder, "copy")];
  const startServer = async (dataDir: string) => {
    const server = await startEmbeddedPostgres({ dataDir, port: await findFreePort(), revive: false });
    onTestFinished(() => server.stop());
    return server;
  };
  const provedUntil = async (url: string) => {
    const sql = "select coalesce(max(safe_through), 0)::text as instant from mirror.poll_state";
    return BigInt(String((await runOnServer(url, sql))[0]?.["instant"]));
  };
  const first = await startServer(liveDir);
  expect((await runProgram(["migrate"], { DATABASE_URL: first.url })).code).toBe(0);
  const { before, untilRead, goOn } = await startMirror(first.url);
  await expect.poll(() => provedUntil(first.url), PATIENCE).toBeGreaterThan(0n);
  // Recovery begins a new timeline, by which the change feed notices that it went back in time.
  const settings = { restore_command: "false" };
  await backUp({ url: first.url, from: liveDir, to: copyDir, signal: "recovery.signal", settings });
  // What is acknowledged from now on is lost with the first server's disk.
  await untilRead(20);
  await before.stop("SIGKILL");
  await first.stop();
  await rm(liveDir, { recursive: true });

  const second = await startServer(copyDir);
  const restored = await provedUntil(second.url);
  expect(restored).toBeGreaterThan(0n);
  await goOn(second.url);
  await expect.poll(() => provedUntil(second.url), PATIENCE).toBeGreaterThan(restored);
});
