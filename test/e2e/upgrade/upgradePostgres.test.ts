import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { nameDatabase } from "../../../src/roles/start/openDatabase.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { isPidAlive } from "../../../src/runtime/postgres/processIdentity.ts";
import { withDatabase } from "../../support/servers/createDatabase.ts";
import {
  findOlderPostgres,
  measureFolder,
  OLDER_MAJOR,
  startOlderServer,
} from "../../support/servers/olderPostgres.ts";
import { copyCluster } from "../../support/servers/ownPostgres.ts";
import { runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";

const older = await findOlderPostgres();
const ORDERS =
  "select reference, encode(hash, 'hex') as hash, version::text from mirror.orders order by reference";
/** The variables that npm needs to reach its registry. */
const REGISTRY = Object.fromEntries(
  Object.entries(process.env).flatMap(([name, value]) =>
    value !== undefined && /proxy|^npm_config_|^NODE_EXTRA_CA_CERTS$|^SSL_CERT/i.test(name)
      ? [[name, value]]
      : [],
  ),
);
/** A cache, so that npm downloads only for the first test. */
const PROGRAMS = ["--programs", path.dirname(older?.postgres ?? "")];

let root: string;
/** A demo's data folder with orders, written by the older major. */
let made: string;

async function ask(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

async function onOlder<Result>(dataDir: string, use: (url: string) => Promise<Result>): Promise<Result> {
  if (older === undefined) throw new TypeError("without older programs no test runs");
  const server = await startOlderServer(path.join(dataDir, "demo"), older);
  try {
    return await use(nameDatabase(server.url));
  } finally {
    await server.stop();
  }
}

/** Runs the demo on the folder's own Postgres until it is up. Returns the orders that it started with. */
async function readByDemo(dataDir: string): Promise<Record<string, unknown>[]> {
  const demo = startProgram(["demo"], { DATA_DIR: dataDir, PORT: "0", SANDBOX_PORT: "0" });
  await demo.waitFor(/webhook\s+DO-/);
  const { stdout } = await runProgram(["psql"], { DATA_DIR: dataDir, PATH: "/nowhere" });
  const url = stdout.trim();
  const orders = await ask(url, ORDERS);
  const reader = new URL(url);
  [reader.username, reader.password] = ["metabase", "secret"];
  const read = await ask(reader.href, "select count(*) > 0 as any from reporting.orders");
  expect(read).toEqual([{ any: true }]);
  await demo.stop("SIGINT");
  return orders;
}

const referencesOf = (orders: readonly Record<string, unknown>[]) =>
  orders.map((order) => order["reference"]);

describe.skipIf(older === undefined)("the data folder of an older Postgres", () => {
  let orders: Record<string, unknown>[];

  beforeAll(async () => {
    root = await mkdtemp(path.join(tmpdir(), "order-mirror-upgrade-postgres-"));
    made = path.join(root, "made");
    await mkdir(made);
    orders = await onOlder(made, async (url) => {
      const env = { DATA_DIR: made, DATABASE_URL: url, PORT: "0", SANDBOX_PORT: "0" };
      await ask(withDatabase(url, "postgres"), "create database order_mirror");
      const demo = startProgram(["demo"], env);
      await demo.waitFor(/webhook\s+DO-/);
      while ((await ask(url, ORDERS)).length < 100) await systemClock.sleep(100);
      await demo.stop("SIGINT");
      await ask(url, "create role metabase login password 'secret'");
      await ask(url, "call mirror.admit_reader('metabase')");
      return ask(url, ORDERS);
    });
  });
  afterEach(stopPrograms);
  afterAll(async () => {
    await stopPrograms();
    await older?.remove();
    await rm(root, { recursive: true, force: true });
  });

  async function copyFolder(name: string): Promise<string> {
    const dataDir = path.join(root, name);
    await copyCluster(made, dataDir);
    return dataDir;
  }

  it("is refused with the name of the upgrade command, which copies every row and keeps the old folder", async () => {
    const dataDir = await copyFolder("whole");
    const refused = await runProgram(["demo"], { DATA_DIR: dataDir, PORT: "0", SANDBOX_PORT: "0" });
    expect(refused.stderr).toMatch(
      new RegExp(`holds data of PostgreSQL ${OLDER_MAJOR}, and this release brings PostgreSQL \\d+\\.`),
    );
    expect(refused.stderr).toContain("fix: Run `order-mirror upgrade-postgres`");
    expect(refused.code).toBe(2);

    const upgraded = await runProgram(["upgrade-postgres"], { ...REGISTRY, DATA_DIR: dataDir });
    expect(upgraded.stderr).not.toContain("order-mirror:");
    expect(upgraded.stdout).toContain(`Copied from PostgreSQL ${OLDER_MAJOR} to`);
    expect(upgraded.stdout).toContain(`${orders.length} orders`);
    expect(upgraded.code).toBe(0);
    expect(
      (await readdir(path.join(dataDir, "demo"))).filter((name) =>
        /^postgres-(?!lock|password|users)/.test(name),
      ),
    ).toEqual([`postgres-${OLDER_MAJOR}`]);
    const version = await readFile(
      path.join(dataDir, "demo", `postgres-${OLDER_MAJOR}`, "PG_VERSION"),
      "utf8",
    );
    expect(version.trim()).toBe(String(OLDER_MAJOR));

    const again = await runProgram(["upgrade-postgres", "--json"], { DATA_DIR: dataDir });
    expect(JSON.parse(again.stdout)).toEqual({ upgrade: null });
    expect(referencesOf(await readByDemo(dataDir))).toEqual(expect.arrayContaining(referencesOf(orders)));
  });

  it("survives Ctrl-C and a kill during the copy, and the next run copies it", async () => {
    const dataDir = await copyFolder("killed");
    const filled = path.join(dataDir, "demo", "postgres-filled", "PG_VERSION");
    const pidFile = path.join(dataDir, "demo", "postgres", "postmaster.pid");
    const interrupted = startProgram(["upgrade-postgres", ...PROGRAMS], { DATA_DIR: dataDir });
    await vi.waitFor(() => expect(existsSync(filled)).toBe(true), { timeout: 60_000, interval: 5 });
    const { stderr, code } = await interrupted.stop("SIGINT");
    expect(stderr).toContain("Interrupted; nothing was changed.");
    expect([code, existsSync(pidFile), existsSync(filled)]).toEqual([130, false, false]);

    const killed = startProgram(["upgrade-postgres", ...PROGRAMS], { DATA_DIR: dataDir });
    await vi.waitFor(() => expect(existsSync(filled)).toBe(true), { timeout: 60_000, interval: 5 });
    expect((await killed.stop("SIGKILL")).signal).toBe("SIGKILL");
    // The servers that it left behind still run.
    const pid = Number((await readFile(pidFile, "utf8")).split("\n")[0]);
    expect(isPidAlive(pid)).toBe(true);

    const refused = await runProgram(["demo"], { DATA_DIR: dataDir, PORT: "0", SANDBOX_PORT: "0" });
    expect(refused.stderr).toContain("fix: Run `order-mirror upgrade-postgres`");
    const upgraded = await runProgram(["upgrade-postgres", "--json", ...PROGRAMS], { DATA_DIR: dataDir });
    expect(upgraded.code).toBe(0);
    const { tables } = JSON.parse(upgraded.stdout) as { tables: { name: string; rows: number }[] };
    expect(tables).toContainEqual({ name: "mirror.orders", rows: orders.length });
    expect(isPidAlive(pid)).toBe(false);
    expect(referencesOf(await readByDemo(dataDir))).toEqual(expect.arrayContaining(referencesOf(orders)));
  });

  it("stays unchanged when it has foreign tables, until leaving them behind is allowed", async () => {
    const dataDir = await copyFolder("notes");
    await onOlder(dataDir, (url) => ask(url, "create table public.notes as select 'call back' as text"));
    const refused = await runProgram(["upgrade-postgres", ...PROGRAMS], { DATA_DIR: dataDir });
    expect(refused.stderr).toContain("The old Postgres holds public.notes, which order-mirror did not make");
    expect(refused.code).toBe(2);
    expect(await onOlder(dataDir, (url) => ask(url, ORDERS))).toEqual(orders);

    const upgraded = await runProgram(["upgrade-postgres", "--leave-behind", ...PROGRAMS], {
      DATA_DIR: dataDir,
    });
    expect(upgraded.stdout).toContain("Left behind: public.notes");
    expect(upgraded.code).toBe(0);
  });

  it("stays unchanged when the disk is full", async () => {
    const dataDir = path.join(root, "full");
    await mkdir(dataDir);
    const size = (await measureFolder(made)) + 30;
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}m`, "tmpfs", dataDir], { stdio: "ignore" });
    } catch {
      process.stderr.write("NOT RUN: the upgrade on a full disk; this account cannot mount one.\n");
      return;
    }
    onTestFinished(() => void execFileSync("umount", [dataDir]));
    await copyCluster(path.join(made, "demo"), path.join(dataDir, "demo"));
    const failed = await runProgram(["upgrade-postgres", ...PROGRAMS], { DATA_DIR: dataDir });
    expect(failed.stderr).toMatch(/the disk is full|No space left on device/);
    expect([failed.code, failed.stdout]).toEqual([75, ""]);
    expect(existsSync(path.join(dataDir, "demo", "postgres-filled"))).toBe(false);
    expect(await onOlder(dataDir, (url) => ask(url, ORDERS))).toEqual(orders);
  });
});
