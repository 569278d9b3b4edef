import { spawn } from "node:child_process";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { startProgram } from "../../support/programs/program.ts";
import type { Bench, BenchDeps } from "../bench.ts";
import { buildProgram, readNodeOptions } from "../buildProgram.ts";
import { startChild, startLoad } from "../children.ts";
import type { Child } from "../children.ts";
import { amount, MINUTES } from "../effort.ts";
import type { LoadAnswer } from "../processes/load.ts";
import { compare, formatValue } from "../measure.ts";
import type { Sample, Subject } from "../measure.ts";
import { readMegabytes } from "../resident.ts";
import { makeEnvironment } from "../roles.ts";
import { nextRound } from "../timeEvents.ts";

const PER_SECOND = 1_000;
/** Events that are signed together: signatures are valid for minutes only, so a long run signs in portions. */
const EVENTS_MAX = 60 * PER_SECOND;
const CONNECTIONS = 64;
const LOOK_MS = 500;
const SHORT_MINUTES = amount(100) / 400;
/** Processes that work together on one database, with the goal of each in megabytes, and how long a counted run lasts. */
const GROUPS = [
  { goals: { web: 120, worker: 120, poller: 120 }, minutes: MINUTES },
  { goals: { up: 220 }, minutes: SHORT_MINUTES },
];

/**
 * Resident memory of the built program at 1,000 events per second: role by role, and of all roles in one process. With
 * `--minutes=N`, each run lasts that long.
 */
export const benchMemory: Bench = async ({ addDatabase, onEnd }) => {
  await buildProgram();
  const nodeOptions = await readNodeOptions();
  const load = await startLoad();
  onEnd(load.stop);
  const idle = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  onEnd(() => Promise.resolve(void idle.kill()));
  const subjects: Subject[] = [];
  for (const { goals, minutes } of GROUPS) {
    const databaseUrl = await addDatabase(Object.keys(goals).join("_"));
    const group = await startGroup(Object.keys(goals), { databaseUrl, nodeOptions, onEnd });
    subjects.push(...listSubjects(goals, { ...group, load, minutes }));
  }
  return compare({
    section: "memory",
    unit: "MB RSS",
    subjects,
    limit: {
      name: "limit: a Node process that does nothing",
      run: async () => ({ value: await readMegabytes(idle.pid ?? 0), errors: 0 }),
    },
  });
};

interface Group {
  /** Where events are sent. */
  readonly url: string;
  readonly pids: ReadonlyMap<string, number>;
}

async function startGroup(
  names: readonly string[],
  options: { databaseUrl: string; nodeOptions: readonly string[]; onEnd: BenchDeps["onEnd"] },
): Promise<Group> {
  const { databaseUrl, nodeOptions, onEnd } = options;
  const sandbox = await startChild("sandboxProcess.ts", { env: makeEnvironment({ databaseUrl }) });
  onEnd(sandbox.stop);
  const port = await findFreePort();
  const env = {
    ...makeEnvironment({ databaseUrl }),
    PORT: String(port),
    DELIVERY_BASE_URL: String(sandbox.greeting),
    LOG_LEVEL: "info",
    LOG_FORMAT: "json",
  };
  const pids = new Map<string, number>();
  for (const name of names) {
    const program = startProgram([name], env, { nodeOptions });
    onEnd(async () => void (await program.stop()));
    await program.waitFor(name === "up" ? /web is ready/ : new RegExp(`${name} is ready`));
    pids.set(name, program.child.pid ?? 0);
  }
  return { url: `http://127.0.0.1:${port}/webhooks/live`, pids };
}

/** One load measures all processes of a group; the first of them starts it. */
function listSubjects(
  goals: Readonly<Record<string, number>>,
  { url, pids, load, minutes }: Group & { load: Child; minutes: number },
): Subject[] {
  const peaks = new Map<string, number>();
  let errors = 0;
  let isWarm = false;
  async function runLoad(): Promise<void> {
    peaks.clear();
    errors = 0;
    const events = (isWarm ? minutes : SHORT_MINUTES) * 60 * PER_SECOND;
    isWarm = true;
    for (let sent = 0; sent < events;) {
      const portion = Math.min(events - sent, EVENTS_MAX);
      await sendPortion(portion);
      sent += portion;
      const sizes = [...peaks].map(([name, peak]) => `${name} ${formatValue(peak)}`);
      process.stderr.write(`  memory · after ${sent / PER_SECOND} s · most seen: ${sizes.join(", ")} MB\n`);
    }
  }
  async function sendPortion(requests: number): Promise<void> {
    const sent = { over: false };
    const order = { requests, perSecond: PER_SECOND, connections: CONNECTIONS, round: nextRound() };
    const sending = load.ask<LoadAnswer>({ url, ...order }).finally(() => (sent.over = true));
    while (!sent.over) {
      for (const [name, pid] of pids)
        peaks.set(name, Math.max(peaks.get(name) ?? 0, await readMegabytes(pid)));
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
    errors += (await sending).errors;
  }
  return Object.entries(goals).map(([name, goal], index) => ({
    name: `${name} at ${PER_SECOND} events/s, most seen`,
    goal: `under ${goal} MB`,
    async run(): Promise<Sample> {
      if (index === 0) await runLoad();
      return { value: peaks.get(name) ?? 0, errors };
    },
  }));
}
