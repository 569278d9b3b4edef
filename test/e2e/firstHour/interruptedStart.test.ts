import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout } from "node:timers/promises";
import pg from "pg";
import { afterAll, afterEach, expect, it } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { findProgram, LIVE_ENV, ROOT, stopPrograms, watchProgram } from "../../support/programs/program.ts";

const LOOK_MS = 5;
const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-interrupted-"));
afterEach(stopPrograms);
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A start under way: its data folder, and the port of its pages. */
interface Start {
  readonly dataDir: string;
  readonly port: number;
  /** To its Postgres: a new one for each look would take more processor time than the start. */
  connection?: pg.Client | undefined;
}

const clusterOf = ({ dataDir }: Start) => path.join(dataDir, "postgres");

/** Connects to the embedded Postgres of a start; undefined until it is ready. */
async function connect(start: Start): Promise<pg.Client | undefined> {
  const pid = await readFile(path.join(clusterOf(start), "postmaster.pid"), "utf8").catch(() => "");
  const [, , , port, , , , status = ""] = pid.split("\n");
  if (status.trim() !== "ready") return undefined;
  const password = await readFile(path.join(start.dataDir, "postgres-password"), "utf8");
  const client = new pg.Client(`postgres://postgres:${password}@127.0.0.1:${port}/postgres`);
  // The server ends it.
  client.on("error", () => undefined);
  return client.connect().then(
    () => client,
    () => undefined,
  );
}

/** Asks the embedded Postgres of a start; undefined until it answers. */
async function askPostgres(start: Start, sql: string): Promise<unknown> {
  start.connection ??= await connect(start);
  const result = await start.connection?.query<{ answer: unknown }>(sql).catch(() => undefined);
  return result?.rows[0]?.answer;
}

/** The steps of a start, each with what shows from outside that it is under way. */
const STEPS = {
  "creates the cluster": async ({ dataDir }: Start) =>
    (await readdir(dataDir).catch(() => [])).some((name) => name.startsWith("postgres-new")),
  "starts Postgres": async (start: Start) => existsSync(path.join(clusterOf(start), "postmaster.pid")),
  answers: (start: Start) => askPostgres(start, "select true as answer"),
  "makes the tables": (start: Start) =>
    askPostgres(start, "select to_regclass('public.order_mirror_migration_runs') is not null as answer"),
  "makes the login": (start: Start) =>
    askPostgres(
      start,
      "select exists (select from public.order_mirror_migration_runs where name = 'queue') as answer",
    ),
  "creates the provider": (start: Start) =>
    askPostgres(start, "select to_regclass('sandbox.orders') is not null as answer"),
  "gives it a past": (start: Start) =>
    askPostgres(start, "select exists (select from sandbox.orders) as answer"),
  "opens its ports": ({ port }: Start) =>
    fetch(`http://127.0.0.1:${port}/livez`).then(
      () => true,
      () => false,
    ),
} satisfies Record<string, (start: Start) => Promise<unknown>>;
type Step = keyof typeof STEPS;

/** The processes that work in a folder, or did before it was renamed or removed. */
async function findProcessesIn(place: string): Promise<string[]> {
  const pids = (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name));
  const places = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => "")));
  return pids.filter((_pid, index) => places[index]?.startsWith(place));
}

type Command = "demo" | "up" | "migrate" | "status" | "tail";
it.each<[command: Command, step: Step, signal: "SIGINT" | "SIGTERM"]>([
  ["demo", "creates the cluster", "SIGINT"],
  ["demo", "starts Postgres", "SIGTERM"],
  ["demo", "makes the tables", "SIGINT"],
  ["demo", "makes the login", "SIGTERM"],
  ["demo", "creates the provider", "SIGINT"],
  ["demo", "gives it a past", "SIGTERM"],
  ["demo", "opens its ports", "SIGINT"],
  ["up", "opens its ports", "SIGTERM"],
  ["migrate", "creates the cluster", "SIGINT"],
  ["migrate", "makes the tables", "SIGTERM"],
  ["status", "starts Postgres", "SIGINT"],
  ["tail", "answers", "SIGTERM"],
])(
  "%s ends properly while it %s, by %s, and goes on from there at the next start",
  async (command, step, signal) => {
    const isProcess = command === "demo" || command === "up";
    // One folder for all starts of a command: each begins with what the one before has left; and the last two work on
    // the mirror of `up`.
    const dataDir = path.join(folder, isProcess || command === "migrate" ? command : "up");
    const port = await findFreePort();
    const start: Start = { dataDir: command === "demo" ? path.join(dataDir, "demo") : dataDir, port };
    const program = watchProgram(
      spawn(process.execPath, [findProgram(), command], {
        cwd: path.join(ROOT, "dist"),
        // A group of its own, as a terminal gives to each command.
        detached: true,
        env: {
          PATH: process.env["PATH"],
          ...(command !== "demo" && LIVE_ENV),
          DATA_DIR: dataDir,
          PORT: String(port),
          SANDBOX_PORT: "0",
          LOCAL_TRUST: "true",
        },
      }),
    );
    let isOver = false;
    void program.ended.then(() => (isOver = true));
    const isUp = () => isOver || /^ {2}Ops |is ready/m.test(program.output());
    while (!isUp() && (await STEPS[step](start)) !== true) await setTimeout(LOOK_MS);
    if (isUp()) throw new Error(`the step was over before it was seen:\n${program.output()}`);
    // A terminal's Ctrl-C reaches the whole group, so initdb and pg_ctl too; a manager ends the process alone.
    process.kill((signal === "SIGINT" ? -1 : 1) * Number(program.child.pid), signal);
    const ending = await program.ended;
    await start.connection?.end().catch(() => undefined);
    expect(ending.stderr).not.toMatch(/nobody caught|too long|did not stop|"level":(50|60)/);
    expect(ending.signal).toBe(signal);
    expect(/^(?:Setting up|Starting) /m.test(ending.stderr)).toBe(isProcess);
    await expect.poll(() => findProcessesIn(start.dataDir), { timeout: 60_000 }).toEqual([]);
    const left = await readdir(start.dataDir);
    expect(left.filter((name) => /^postgres-(new|lock)/.test(name))).toEqual([]);
    expect(existsSync(path.join(clusterOf(start), "postmaster.pid"))).toBe(false);
  },
);
