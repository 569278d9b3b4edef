import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { startProgram } from "../../support/programs/program.ts";
import type { Bench } from "../bench.ts";
import { buildProgram, ROOT } from "../buildProgram.ts";
import { compare } from "../measure.ts";
import type { Sample } from "../measure.ts";
import { makeEnvironment } from "../roles.ts";

const LOOK_MS = 20;
const PATIENCE_MS = 180_000;

/** The time from the start until the program works. */
export const benchStartUp: Bench = async ({ databaseUrl }) => {
  await buildProgram();
  return compare({
    section: "start-up",
    unit: "s",
    subjects: [
      { name: "up, until /readyz answers 200", goal: "under 2 s", run: () => startUp(databaseUrl) },
      {
        name: "npm start with a new data folder, until the first order is in the mirror",
        goal: "under 10 s",
        run: startDemo,
      },
    ],
    limit: { name: "limit: a Node process that answers a request", run: startBare },
  });
};

async function startUp(databaseUrl: string): Promise<Sample> {
  const port = await findFreePort();
  const startedMs = performance.now();
  const program = startProgram(["up"], { ...makeEnvironment({ databaseUrl }), PORT: String(port) });
  const seconds = await secondsUntil(startedMs, () => answersOk(`http://127.0.0.1:${port}/readyz`));
  await program.stop();
  return { value: seconds, errors: 0 };
}

async function startDemo(): Promise<Sample> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-bench-start-"));
  const [port, sandboxPort] = [await findFreePort(), await findFreePort()];
  const { PATH = "", HOME = "" } = process.env;
  const env = { PATH, HOME, DATA_DIR: dataDir, PORT: String(port), SANDBOX_PORT: String(sandboxPort) };
  const startedMs = performance.now();
  const npm = spawn("npm", ["start"], { cwd: ROOT, env, detached: true, stdio: "ignore" });
  const ended = new Promise((resolve) => npm.once("exit", resolve));
  try {
    const seconds = await secondsUntil(startedMs, () =>
      hasOrder(`http://127.0.0.1:${port}/v1/orders?limit=1`),
    );
    return { value: seconds, errors: 0 };
  } finally {
    // The whole group: a signal to npm alone would leave the program running.
    if (npm.pid !== undefined) process.kill(-npm.pid, "SIGINT");
    await ended;
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function startBare(): Promise<Sample> {
  const port = await findFreePort();
  const program = `require("node:http").createServer((_, res) => res.end()).listen(${port}, "127.0.0.1")`;
  const startedMs = performance.now();
  const bare = spawn(process.execPath, ["-e", program], { stdio: "ignore" });
  const seconds = await secondsUntil(startedMs, () => answersOk(`http://127.0.0.1:${port}/`));
  bare.kill();
  return { value: seconds, errors: 0 };
}

/** Seconds from `startedMs` until the condition is true. Throws after three minutes. */
async function secondsUntil(startedMs: number, isSo: () => Promise<boolean>): Promise<number> {
  while (!(await isSo())) {
    if (performance.now() - startedMs > PATIENCE_MS) throw new Error("it never came up");
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return (performance.now() - startedMs) / 1_000;
}

async function answersOk(url: string): Promise<boolean> {
  const answer = await fetch(url).catch(() => undefined);
  await answer?.body?.cancel();
  return answer?.ok === true;
}

async function hasOrder(url: string): Promise<boolean> {
  const answer = await fetch(url).catch(() => undefined);
  if (answer?.status !== 200) return false;
  return ((await answer.json()) as { data: unknown[] }).data.length > 0;
}
