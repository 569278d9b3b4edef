import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { runCommand } from "../../support/programs/command.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const hasPython = spawnSync("python3", ["-c", "import cryptography"]).status === 0;

let database: TestDatabase;
let pool: Pool;
let folder: string;
const inFolder = (name: string) => path.join(folder, name);
const run = (...args: string[]) => runCommand(args, { databaseUrl: database.url, env: { DATA_DIR: folder } });
/** Without any database. */
const runOffline = (...args: string[]) => runCommand(args, { databaseUrl: "postgres://127.0.0.1:9/none" });

/** Contents that programs easily write differently. */
const ODD = {
  numbers: [1e21, 1.5e-7, 0.1, 100, -0, 12_345_678_901_234_567_000, 1e-6, 5e-324],
  "\u20ac": "\u2028\u007f\u0001\ud83d\ude00\ufb33",
  "\ud83d\ude00": 1,
  "\ufb33": 2,
  nested: { b: [{}, [], null, true], a: '"\\/\b' },
};

beforeAll(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "poll", max: 4, statementTimeoutMs: 10_000 });
  folder = await mkdtemp(path.join(tmpdir(), "certificates-"));
  await addSource(pool, "live");
  const provider = makeMemoryProvider();
  for (let order = 0; order < 50; order += 1)
    provider.put(`R${order}`, secondsAgo(1_900 + order * 7), { ...ODD, order });
  for (const [name, age] of [
    ["EARLY", 4_000],
    ["LATE", 600],
  ] as const)
    provider.put(name, secondsAgo(age));
  const poller = makeLivePoller({
    client: provider,
    pool,
    intervalSeconds: 0.05,
    backfillSince: "PT2H",
    holder: "test",
  });
  const isSafe = async () => {
    await poller.runOnce();
    const text = "select from mirror.poll_state where safe_through > 1e9 * (extract(epoch from now()) - 60)";
    return (await pool.query(text)).rowCount === 1;
  };
  await vi.waitUntil(isSafe, { timeout: 60_000, interval: 5 });
  await poller.close();
});
afterAll(async () => {
  await pool.end();
  await database.drop();
  await rm(folder, { recursive: true });
});

describe("certify and certificate", () => {
  let key: string;
  const since = formatInstant(secondsAgo(3_600));
  // The first orders were updated after it, however long the tests before have taken.
  const middle = formatInstant(secondsAgo(2_000));
  const until = formatInstant(secondsAgo(1_850));

  it("issue a certificate with its orders, and the chain, signed by a key that only this account can read", async () => {
    const period = ["--since", since, "--until", until];
    const issued = await run(
      "certify",
      ...period,
      "--orders",
      inFolder("orders.ndjson"),
      "--states",
      inFolder("states.csv"),
    );
    expect(issued).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("50 orders certified") as string,
    });
    const chain = await run("certificate", "chain");
    expect(chain.stdout.split("\n")).toHaveLength(3);
    expect(chain.stdout.split("\n")[1]).toBe(issued.stdout.trim());
    await writeFile(inFolder("chain.ndjson"), chain.stdout);
    key = (await run("certificate", "key")).stdout.trim();
    expect((await stat(inFolder("certificate-key.pem"))).mode & 0o777).toBe(0o600);
  });

  it("are checked offline, and say what differs row by row", async () => {
    const states = ["--states", inFolder("states.csv")];
    expect(await check("--orders", inFolder("orders.ndjson"))).toMatchObject({ code: 0, stdout: "" });
    expect(await check("--orders", inFolder("states.csv"))).toMatchObject({ code: 0 });
    const orders = await readFile(inFolder("orders.ndjson"), "utf8");
    await writeFile(
      inFolder("changed.ndjson"),
      orders
        .split("\n")
        .filter((line) => !line.includes('"reference":"R7"'))
        .join("\n")
        .replace('"order":8', '"order":9'),
    );
    const checked = await check("--orders", inFolder("changed.ndjson"), ...states);
    expect(checked.code).toBe(3);
    expect(checked.stdout.trim().split("\n").toSorted()).toEqual([
      "R7: missing",
      "R8: the same updatedAt, different content",
      "orders: 49 of the period in the file, 50 certified; they differ",
    ]);
    expect((await check("--orders", inFolder("changed.ndjson"))).stdout).toContain(
      "--states FILE would name",
    );
    const strangers = (await run("certificate", "rotate-key")).stdout.trim();
    const untrusted = await runOffline("certificate", "check", inFolder("chain.ndjson"), "--key", strangers);
    expect(untrusted).toMatchObject({
      code: 3,
      stdout: expect.stringContaining("not signed by the key") as string,
    });
  });

  const check = (...options: string[]) =>
    runOffline("certificate", "check", inFolder("chain.ndjson"), "--key", key, ...options);

  it.each([
    ["csv", []],
    ["csv", ["--excel", "--separator", "semicolon"]],
    ["ndjson", []],
    ["parquet", []],
  ])("are checked with an export of all orders as %s %j", async (format, more) => {
    const file = inFolder(`export.${format}`);
    expect(await run("export", "--format", format, ...more, "--output", file)).toMatchObject({ code: 0 });
    const right = await check("--orders", file);
    expect(right).toMatchObject({ code: 0, stdout: "" });
    expect(right.stderr).toContain("The windows that it lists cover the period.");
    expect(right.stderr).toContain("The orders of the period are exactly the certified ones.");
    expect(right.stderr).toContain("2 orders with an updatedAt outside the period were left out.");
    expect(right.stderr.includes("its other columns were not checked")).toBe(format !== "ndjson");
  });

  it("say what an export lacks, by any file that has the certified states", async () => {
    const file = inFolder("fewer.parquet");
    await run(
      "export",
      "--format",
      "parquet",
      "--updated-since",
      since,
      "--updated-until",
      middle,
      "--output",
      file,
    );
    for (const certified of ["states.csv", "export.parquet"]) {
      const checked = await check("--orders", file, "--states", inFolder(certified));
      expect(checked.code).toBe(3);
      expect(checked.stdout).toMatch(/^R0: missing$/m);
    }
  });

  it("say which column is missing", async () => {
    await writeFile(inFolder("few.csv"), "reference,status\r\nR1,created\r\n");
    const checked = await check("--orders", inFolder("few.csv"));
    expect(checked.code).toBe(2);
    expect(checked.stderr).toContain("few.csv has no column version, content_hash.");
  });

  it.runIf(hasPython)(
    "are checked by the example in Python, too (else NOT run: no python3 with cryptography)",
    async () => {
      const check = (orders: string) => {
        const example = path.join(ROOT, "examples/check_certificate.py");
        const files = [inFolder("chain.ndjson"), key, inFolder(orders)];
        const { status, stdout, stderr } = spawnSync("python3", [example, ...files], { encoding: "utf8" });
        return { status, text: stdout + stderr };
      };
      expect(check("orders.ndjson")).toEqual({
        status: 0,
        text: expect.stringContaining("right: live") as string,
      });
      expect(check("changed.ndjson")).toEqual({
        status: 1,
        text: "wrong: these are not the certified orders\n",
      });
      expect(
        (await readFile(path.join(ROOT, "examples/check_certificate.py"), "utf8")).split("\n").length,
      ).toBeLessThan(82);
    },
  );

  it("refuse a period that is not proved, with when to ask again, and wrong usage", async () => {
    const today = formatInstant(systemClock.now()).slice(0, 10);
    const early = await run("certify", "--day", today);
    expect(early).toMatchObject({
      code: expect.toSatisfy((code: number) => code === 75 || code === 1) as number,
    });
    expect(await run("certify", "--day", "2026-13-01")).toMatchObject({ code: 2 });
    expect(await runOffline("certificate", "check", inFolder("chain.ndjson"), "--key", "x")).toMatchObject({
      code: 2,
    });
  });
});
