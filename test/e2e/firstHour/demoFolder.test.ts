import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, expect, it, onTestFinished } from "vitest";
import { openTestDatabase } from "../../support/servers/database.ts";
import { listenHere } from "../../support/http/serve.ts";
import { runCommand } from "../../support/programs/command.ts";
import { has, runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";

const hasPsql = has("psql");
if (!hasPsql) process.stderr.write("NOT RUN: psql on the demo's database; it is not installed.\n");

const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-demo-folder-"));
afterEach(stopPrograms);
afterAll(() => rm(folder, { recursive: true, force: true }));

it("replaces taken ports by free ones; a second start and other commands find it by its folder; no real provider gets it", async () => {
  const env = { DATA_DIR: path.join(folder, "first") };
  const [web, sandbox] = [await listenHere(createServer()), await listenHere(createServer())];
  const demo = startProgram(["demo"], {
    ...env,
    PORT: String(web.port),
    SANDBOX_PORT: String(sandbox.port),
  });
  const [, ops] = await demo.waitFor(/Ops\s+(http:\S+\/ops)/);
  expect(demo.output()).toMatch(new RegExp(`Port ${web.port} is taken; PORT is \\d+ this time\\.`));
  expect(demo.output()).toMatch(
    new RegExp(`Port ${sandbox.port} is taken; SANDBOX_PORT is \\d+ this time\\.`),
  );
  await Promise.all([web.close(), sandbox.close()]);
  // All its data is in its own folder.
  expect(await readdir(env.DATA_DIR)).toEqual(["demo"]);

  const second = await runProgram(["demo"], env);
  expect(second.stderr).toContain(`The demo of this folder is already running: ${ops}`);
  expect(second.code).toBe(2);

  const triggered = await runProgram(["trigger", "lost-webhook"], env);
  expect(triggered.code).toBe(0);
  const status = await runProgram(["status", "--json"], env);
  expect(JSON.parse(status.stdout)).toMatchObject([{ sourceId: "live" }, { sourceId: "test" }]);
  const [, reference = ""] = await demo.waitFor(/webhook\s+(DO-\S+)\s/);
  expect((await runProgram(["order", reference], env)).stdout).toContain(`Order ${reference}`);
  const missing = await runProgram(["order", "DO-NONE", "--json"], env);
  expect(missing.code).toBe(3);
  expect(JSON.parse(missing.stdout)).toMatchObject({
    error: { message: "No order DO-NONE in the mirror.", exitCode: 3 },
  });
  const doctor = await runProgram(["doctor", "--json"], env);
  const { findings } = JSON.parse(doctor.stdout) as { findings: { check: string; level: string }[] };
  expect(findings.filter(({ level }) => level === "problem")).toEqual([]);

  const sql = "select count(*) > 0 from reporting.orders";
  const psql = await runProgram(["psql", "-At", "-c", sql], env);
  expect(psql.code).toBe(0);
  expect(psql.stdout).toMatch(hasPsql ? /^t\n$/ : /^postgres:/);
  const without = await runProgram(["psql"], { ...env, PATH: "/nowhere" });
  expect(without.stdout).toMatch(/^postgres:\/\/postgres:\S+@127\.0\.0\.1:\d+\/postgres\n$/);
  expect(without.code).toBe(0);

  await demo.stop("SIGINT");
  const { code, stderr } = await runProgram(["poller"], {
    DATA_DIR: path.join(env.DATA_DIR, "demo"),
    DELIVERY_BASE_URL: "https://a.example",
    DELIVERY_LIVE_API_KEY: "dos_live_x",
  });
  expect(stderr).toContain("Source live belongs to the sandbox of order-mirror demo");
  expect(code).toBe(2);
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
