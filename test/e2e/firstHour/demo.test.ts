import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { askSandbox } from "../../../src/cli/commands/sandbox.ts";
import { VARIABLE_NAMES } from "../../support/config/loading.ts";
import { listenHere } from "../../support/http/serve.ts";
import { runCommand } from "../../support/programs/command.ts";
import {
  has,
  ROOT,
  runProgram,
  startProgram,
  stopPrograms,
  watchProgram,
  type RunningProgram,
} from "../../support/programs/program.ts";
import { openTestDatabase } from "../../support/servers/database.ts";

const hasPsql = has("psql");
if (!hasPsql) process.stderr.write("NOT RUN: psql on the demo's database; it is not installed.\n");

const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-demo-"));
const home = { DATA_DIR: path.join(folder, "first") };
const run = (...args: string[]) => runCommand(args, { env: home });
/** What a developer has in `.env` is not for the demo of a test: a variable without a text counts as not set. */
const unset = Object.fromEntries(
  VARIABLE_NAMES.flatMap((name) => [name, `${name}_FILE`]).map((n) => [n, ""]),
);
let demo: RunningProgram;
/** Ends `npm start` as Ctrl-C does: in a terminal it reaches npm, its shell and the program. */
const interrupt = (signal: NodeJS.Signals) => process.kill(-demo.child.pid!, signal);
afterAll(async () => {
  await stopPrograms();
  await rm(folder, { recursive: true, force: true });
});

interface StatusJson {
  readonly sourceId: string;
  readonly orders: number;
}
const readStatus = async () => JSON.parse((await run("status", "--json")).stdout) as [StatusJson, StatusJson];

describe("npm start, in an empty folder, with its ports taken", () => {
  let ops: string;
  let sandbox: string;
  beforeAll(async () => {
    const taken = { web: await listenHere(createServer()), sandbox: await listenHere(createServer()) };
    const ports = { PORT: String(taken.web.port), SANDBOX_PORT: String(taken.sandbox.port) };
    const { PATH = "", HOME = "" } = process.env;
    const env = { ...unset, PATH, HOME, ...home, ...ports, POLL_INTERVAL_SECONDS: "3", NO_COLOR: "1" };
    demo = watchProgram(spawn("npm", ["start"], { cwd: ROOT, env, detached: true }));
    [, ops = ""] = await demo.waitFor(/Ops\s+(http:\S+\/ops)/);
    [, sandbox = ""] = await demo.waitFor(/Provider\s+(http:\S+)\/_sandbox/);
    for (const [name, port] of Object.entries(ports))
      await demo.waitFor(new RegExp(`Port ${port} is taken; ${name} is \\d+ this time\\.`));
    await Promise.all([taken.web.close(), taken.sandbox.close()]);
  });
  afterAll(() => {
    if (demo.child.exitCode === null && demo.child.signalCode === null) interrupt("SIGKILL");
  });

  it("prints its addresses, then events, in a folder of its own", async () => {
    await demo.waitFor(/Access\s+everybody on this machine, without a password/);
    // `.ci/quick-start` measures how soon.
    const [, reference = ""] = await demo.waitFor(/webhook\s+(\S+)\s+.*applied/);
    expect(demo.output().search(/ webhook .*applied/)).toBeGreaterThan(demo.output().search(/^ {2}Ops /m));
    expect(await readdir(home.DATA_DIR)).toEqual(["demo"]);
    const order = await run("order", reference);
    expect(order).toMatchObject({ code: 0, stdout: expect.stringMatching(`^Order ${reference}`) });
    expect(order.stdout).toMatch(/webhook\s+order\.\w+\s+\w+\s+applied/);
  });

  it("shows a lost change and its repair in the terminal, on the page and in the order's timeline", async () => {
    // Lost can be only a change of an order that the mirror knows, to a status that the provider announces. The fleet
    // rests, so that the order keeps statuses to move to.
    await demo.waitFor(/webhook\s.*→ picked_up\s+applied/);
    await askSandbox(sandbox, { path: "/dials", body: { speed: 0 } });
    const made = await askSandbox<{ references: [string] }>(sandbox, { path: "/orders", body: {} });
    const [reference] = made.references;
    const read = async (address: string) => {
      const answer = await fetch(address);
      const text = (await answer.text()).replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
      return `${answer.status} ${text}`;
    };
    const page = `${ops}/orders/live/${reference}`;
    await expect.poll(() => read(page), { interval: 500 }).toMatch(/^200 /);
    expect((await run("trigger", "lost-webhook", "--order", reference)).code).toBe(0);
    await demo.waitFor(new RegExp(`poll\\s+${reference}\\s+.*repaired\\s+no event had brought it`));
    const lost = new RegExp(`${reference} live \\w+ lost poll`);
    await expect.poll(() => read(`${ops}/lost`), { interval: 500 }).toMatch(lost);
    expect(await read(page)).toContain("LOST Its event never arrived");
    // The sandbox's page leads to each order's page in the mirror.
    const world = await (await fetch(`${sandbox}/_sandbox`)).text();
    const link = /<a[^>]*href="([^"]+\/orders\/\w+\/DO-\w+)"/.exec(world)?.[1] ?? "none";
    expect(link).toMatch(new RegExp(`^${ops}/orders/(live|test)/DO-`));
    await expect.poll(() => read(link), { interval: 500 }).toMatch(/^200 /);
  });

  it("is found by its folder: by a second start, which is refused, and by commands", async () => {
    expect(await runProgram(["demo"], home)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`The demo of this folder is already running: ${ops}`),
    });
    expect(await readStatus()).toMatchObject([{ sourceId: "live" }, { sourceId: "test" }]);
    expect(JSON.parse((await run("doctor", "--json")).stdout)).toMatchObject({ problems: 0 });
    const psql = await runProgram(["psql", "-At", "-c", "select count(*) > 0 from reporting.orders"], home);
    expect(psql).toMatchObject({ code: 0, stdout: expect.stringMatching(hasPsql ? /^t\n$/ : /^postgres:/) });
    const without = await runCommand(["psql"], { env: { ...home, PATH: "/nowhere" } });
    expect(without.stdout).toMatch(/^postgres:\/\/postgres:\S+@127\.0\.0\.1:\d+\/postgres\n$/);
    expect(without.code).toBe(0);
  });

  it("ends by Ctrl-C within twenty seconds, and a second start goes on from there, until its output is closed", async () => {
    const startedMs = performance.now();
    interrupt("SIGINT");
    // npm exits with the shell's code for the signal, or by the signal; a shell shows 130 for both.
    const { code, signal } = await demo.ended;
    expect([130, "SIGINT"]).toContain(code ?? signal);
    expect(performance.now() - startedMs).toBeLessThan(20_000);
    expect(demo.output()).not.toMatch(/took too long/);
    const stopped = (await readStatus())[0].orders;
    expect(stopped).toBeGreaterThan(0);

    const again = startProgram(["demo"], { ...home, PORT: "0", SANDBOX_PORT: "0", LOCAL_TRUST: "" });
    await again.waitFor(/webhook\s+\S+\s+.*applied/);
    expect((await readStatus())[0].orders).toBeGreaterThanOrEqual(stopped);
    const postgres = path.join(home.DATA_DIR, "demo/postgres/postmaster.pid");
    expect(existsSync(postgres)).toBe(true);
    again.child.stdout?.destroy();
    expect(await again.ended).toMatchObject({ code: 141, signal: null });
    expect(existsSync(postgres)).toBe(false);
  });

  it("leaves a folder that no real provider gets", async () => {
    const { code, stderr } = await runProgram(["poller"], {
      DATA_DIR: path.join(home.DATA_DIR, "demo"),
      DELIVERY_BASE_URL: "https://a.example",
      DELIVERY_LIVE_API_KEY: "dos_live_x",
    });
    expect(stderr).toContain("Source live belongs to the sandbox of order-mirror demo");
    expect(code).toBe(2);
  });
});

it.each<[code: number, ...args: string[]]>([
  ...["status", "tail", "order DO-1", "psql", "verify --from P1D", "export"].map(
    (text): [number, ...string[]] => [2, ...text.split(" ")],
  ),
  [3, "doctor"],
])("in a folder where nothing runs exits with %i, says so and creates nothing: %s", async (code, ...args) => {
  const nothing = path.join(folder, "nothing");
  const ending = await runCommand(args, { env: { DATA_DIR: nothing } });
  expect(ending.stdout + ending.stderr).toContain(`Nothing runs here: ${nothing} has no database`);
  expect(ending.code).toBe(code);
  expect(existsSync(nothing)).toBe(false);
});

it("does not use a database with a real source, which it did not create", async () => {
  const { database, pool } = await openTestDatabase({ ends: onTestFinished });
  await pool.query(
    "insert into mirror.sources (source_id, mode, base_url, provider) values ('live', 'live', 'https://a.example', 'https://a.example')",
  );
  const env = { DATA_DIR: path.join(folder, "real"), DATABASE_URL: database.url };
  const { code, stderr } = await runProgram(["demo"], env);
  expect(stderr).toContain(
    "DATABASE_URL points to a mirror that the demo did not create (source live of https://a.example)",
  );
  expect(code).toBe(2);
  const { rows } = await pool.query(
    "select source_id, base_url, to_regnamespace('sandbox') as sandbox from mirror.sources",
  );
  expect(rows).toEqual([{ source_id: "live", base_url: "https://a.example", sandbox: null }]);
});
