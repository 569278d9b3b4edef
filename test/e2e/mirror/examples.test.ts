import path from "node:path";
import { spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { describeApi } from "../../../src/api/openapi/openapi.ts";
import { makeDocsRouter } from "../../../src/api/openapi/docsRouter.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { serve, serveAt, type TestServer } from "../../support/http/serve.ts";
import { addSource, at, makeSnapshot, readAt, type OrderSketch } from "../../support/mirror/orders.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { emptying, prove } from "../../support/mirror/tables.ts";
import { has, stopPrograms, watchProgram, type RunningProgram } from "../../support/programs/program.ts";

const EXAMPLES = path.resolve(import.meta.dirname, "../../../examples");
const TOKEN = "token-of-the-examples";

const { database } = await openTestDatabase();
let server: TestServer;

const makeRouters = () =>
  [
    makeTestApi({ pool: database.pool, apiTokens: [{ token: TOKEN, sourceId: "live" }] }),
    makeDocsRouter(describeApi()),
  ] as const;

await addSource(database.pool, "live");
server = await serve(...makeRouters());
const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-examples-"));
beforeEach(async () => {
  await database.pool.query(emptying("orders history changes poll_state"));
});
afterEach(stopPrograms);
afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true });
});

async function see(...orders: OrderSketch[]): Promise<void> {
  const { pool } = database;
  const apply = makeLiveApply(pool);
  const snapshots = orders.map(makeSnapshot);
  await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(0n) });
}

/** Runs a program of `examples/` with these variables and those needed to find programs. */
function run(command: string, args: readonly string[], more: Record<string, string> = {}): RunningProgram {
  const { PATH = "", HOME = "" } = process.env;
  const env = { PATH, HOME, MIRROR_URL: server.url, MIRROR_TOKEN: TOKEN, ...more };
  return watchProgram(spawn(command, args, { cwd: folder, env }));
}
const node = (file: string, ...args: string[]) => [path.join(EXAMPLES, file), ...args];

it("the back office shows the orders that are late now", async () => {
  const late = { deliveryTime: "2026-03-01T10:00:00+01:00" };
  await see(
    { reference: "<LATE>", updatedAt: at(1), more: late },
    { reference: "FUTURE", updatedAt: at(2), more: { deliveryTime: "2099-03-01T10:00:00+01:00" } },
    { reference: "CANCELLED", updatedAt: at(3), status: "cancelled", more: late },
  );
  const port = await findFreePort();
  const office = run(process.execPath, node("back-office/server.mjs"), { PORT: String(port) });
  await office.waitFor(/^http:/);
  const read = async () => (await fetch(`http://127.0.0.1:${port}`)).text();
  await expect.poll(read).toMatch(/2 open orders; following[^]*&#60;LATE&#62;/);
  expect(await read()).not.toMatch(/FUTURE|CANCELLED|<LATE>/);
  await see({ reference: "NEW", updatedAt: at(4), more: late });
  await expect.poll(read).toContain("NEW");
  const more = { ...late, realDeliveryTime: "2026-03-01T11:00:00+01:00" };
  await see({ reference: "<LATE>", updatedAt: at(5), status: "delivered", more });
  await expect.poll(read).not.toContain("LATE&#62;");
});

it("the cron job reports a day once the mirror is complete for it", async () => {
  const planned = { deliveryTime: "2026-03-01T10:00:00+01:00" };
  await see(
    {
      reference: 'A "1"',
      updatedAt: at(1),
      more: { ...planned, realDeliveryTime: "2026-03-01T10:30:00+01:00" },
    },
    {
      reference: "IN-TIME",
      updatedAt: at(2),
      more: { ...planned, realDeliveryTime: "2026-03-01T08:59:00Z" },
    },
    { reference: "OPEN", updatedAt: at(3), more: planned },
  );
  const report = () => run(process.execPath, node("cron/late-orders.mjs", "2026-03-01")).ended;
  expect(await report()).toMatchObject({ code: 75, stdout: "" });
  await prove(database.pool, "2026-03-02T00:00:00Z");
  expect(await report()).toMatchObject({
    code: 0,
    stdout:
      'order,fleet,planned,delivered,minutes_late\n"A ""1""",Northside Couriers,2026-03-01T10:00:00+01:00,2026-03-01T10:30:00+01:00,30\n',
  });
});

it("the file per day waits for the mirror to have everything of it, and appears whole", async () => {
  await see({ reference: "A", updatedAt: at(1) }, { reference: "B", updatedAt: at(86_400) });
  const write = () => run("sh", [path.join(EXAMPLES, "cron/order-days.sh"), folder, "2026-03-01"]).ended;
  expect(await write()).toMatchObject({ code: 75, stdout: "" });
  expect(await readdir(folder)).toEqual([]);
  await prove(database.pool, "2026-03-02T00:00:00Z");
  expect(await write()).toMatchObject({ code: 0, stdout: "", stderr: "" });
  const [head, ...rows] = (await readFile(path.join(folder, "2026-03-01.csv"), "utf8")).split("\r\n");
  expect(head).toMatch(/^source_id,reference,/);
  expect(rows).toEqual([expect.stringMatching(/^live,A,/), ""]);
  expect(await readdir(folder)).toEqual(["2026-03-01.csv"]);
  await rm(path.join(folder, "2026-03-01.csv"));
});

it("the stream in a shell prints each change, and continues where it ended", async () => {
  await see({ reference: "A", updatedAt: at(1) });
  const follow = () => run("sh", [path.join(EXAMPLES, "curl/follow.sh"), "position"]);
  const restart = async (reader: RunningProgram) => {
    await server.close();
    server = await serveAt(Number(new URL(server.url).port), ...makeRouters());
    return (await reader.ended).stdout.trim().split("\n");
  };
  const first = follow();
  await first.waitFor(/"reference":"A"/);
  await vi.waitFor(() => readFile(path.join(folder, "position")));
  expect(await restart(first)).toHaveLength(1);
  await see({ reference: "A", updatedAt: at(2), status: "picked_up" });
  const second = follow();
  await second.waitFor(/"status":"picked_up"/);
  expect(await restart(second)).toHaveLength(1);
  await rm(path.join(folder, "position"));
});

const python = has("python3");

describe.skipIf(!python)(
  `the reader in Python (${python ? "python3" : "skipped: there is no python3"})`,
  () => {
    it("lists orders and follows changes across restarts of the mirror and of itself", async () => {
      await see({ reference: "A", updatedAt: at(1) }, { reference: "B", updatedAt: at(2) });
      const args = [...node("python/follow.py"), "cursor"];
      const first = run("python3", args);
      await first.waitFor(/order B created/);
      await see({ reference: "A", updatedAt: at(3), status: "picked_up" });
      await first.waitFor(/change A 2 picked_up 2026-03-01T09:00:03Z/);
      await prove(database.pool, at(3), { safe_position: 0 });
      await first.waitFor(/complete 2026-03-01T09:00:03Z/);
      await server.close();
      await see({ reference: "B", updatedAt: at(4), status: "picked_up" });
      server = await serveAt(Number(new URL(server.url).port), ...makeRouters());
      await first.waitFor(/change B 2 picked_up/);
      // A reader killed between processing a change and storing its position gets the change again.
      const readSaved = async () => (await readFile(path.join(folder, "cursor"), "utf8")).split(".")[1];
      const { rows } = await database.pool.query<{ last: string }>(
        "select max(position) as last from mirror.changes",
      );
      await expect.poll(readSaved).toBe(rows[0]?.last);
      const { stdout } = await first.stop();
      await see({ reference: "A", updatedAt: at(5), status: "delivered" });
      const second = run("python3", args);
      await second.waitFor(/change A 3 delivered/);
      const lines = (stdout + (await second.stop()).stdout).trim().split("\n");
      const orders = lines.filter((line) => !line.startsWith("complete "));
      expect(orders.map((line) => line.split(" ").slice(0, 3).join(" "))).toEqual([
        "order A created",
        "order B created",
        "change A 2",
        "change B 2",
        "change A 3",
      ]);
    });
  },
);
