import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterEach, expect, it, onTestFinished, vi } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { createDatabase, runOnServer, withDatabase, findTestServer } from "../../support/servers/database.ts";
import { hasDebianPostgres, startDebianPostgres } from "../../support/servers/debianPostgres.ts";
import { startFaultProvider } from "../../support/providers/faultProvider.ts";
import { followFeed } from "../../support/mirror/served.ts";
import { runProgram, startRole, stopPrograms } from "../../support/programs/program.ts";

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

/** Dumps the database and restores it into a newer major. */
async function dumpAndRestore(oldUrl: string): Promise<string> {
  const name = `moved_${process.pid}`;
  await createDatabase(findTestServer(), name);
  onTestFinished(
    async () => void (await runOnServer(findTestServer(), `drop database ${name} with (force)`)),
  );
  const newUrl = withDatabase(findTestServer(), name);
  expect(await majorOf(oldUrl)).toBeLessThan(await majorOf(newUrl));
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-major-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const dump = path.join(folder, "mirror.dump");
  await run("pg_dump", [oldUrl, "--format", "custom", "--file", dump]);
  const restore = ["--exit-on-error", "--no-owner", "--no-privileges", "--dbname", newUrl, dump];
  await run("pg_restore", restore);
  return newUrl;
}

it.runIf(hasDebianPostgres)(
  "dumped and restored into a newer major of Postgres, the mirror goes on, and readers of the feed behind where they were",
  async () => {
    const provider = await startFaultProvider({ seed: 5, speed: 40, trafficPerMinute: 240 });
    onTestFinished(() => provider.close());
    const old = await startDebianPostgres();
    onTestFinished(() => old.remove());
    await createDatabase(old.url, "mirror");
    const oldUrl = withDatabase(old.url, "mirror");
    expect((await runProgram(["migrate"], { DATABASE_URL: oldUrl })).code).toBe(0);
    const port = await findFreePort();
    const startUp = (databaseUrl: string) =>
      startRole("up", { ...provider.env, DATABASE_URL: databaseUrl, PORT: String(port) });
    const before = await startUp(oldUrl);
    await provider.sendEventsTo(`http://127.0.0.1:${port}/webhooks/live`);
    const follower = followFeed(`http://127.0.0.1:${port}`);
    onTestFinished(() => follower.stop());
    await vi.waitUntil(() => follower.changes.length > 30, PATIENCE);
    await before.stop();

    const positions = (url: string) =>
      runOnServer(url, "select position, reference, revision from mirror.changes order by position");
    const moved = await positions(oldUrl);
    const newUrl = await dumpAndRestore(oldUrl);
    expect(await positions(newUrl)).toEqual(moved);

    const followed = follower.changes.length;
    await startUp(newUrl);
    await vi.waitUntil(() => follower.changes.length > followed + 10, PATIENCE);
    await provider.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
    await expect.poll(() => follower.listMissed((sql) => runOnServer(newUrl, sql)), PATIENCE).toEqual([]);
    // Each once: nothing was renumbered, and no reader had to start again.
    expect(follower.changes.length).toBe(new Set(follower.changes).size);
    expect(follower.refusals).toEqual([]);
  },
);
