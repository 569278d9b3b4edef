import { readdir, readFile } from "node:fs/promises";
import type { Pool } from "../../../src/database/database.ts";
import {
  type Bench,
  type BenchDeps,
  type Child,
  type Running,
  send,
  sendRound,
  startChild,
  startLoad,
  withEachQueue,
} from "../children.ts";
import { amount } from "../effort.ts";
import { compare, type Sample, type Subject } from "../measure.ts";

const EVENTS = amount(30_000);
const WARM_UP_ROUNDS = 2;

/** The kernel shows it in hundredths of a second. */
const MICROS_PER_TICK = 10_000;

/** Processor time per event in microseconds, and the goal. */
const COSTS = { web: "at most 60", worker: "at most 40", Postgres: "at most 80" } as const;

interface Measured extends Readonly<Record<keyof typeof COSTS, number>> {
  readonly perSecond: number;
  readonly errors: number;
}

/** What an event costs on its way into the mirror at full rate, and how many go through, next to a bare handler. */
export const benchCost: Bench = async (deps) => {
  if (process.platform !== "linux")
    throw new Error("Only Linux shows the processor time of a server's processes.");
  const load = await startLoad(deps);
  const bare = await startChild(deps, "bareReceiveProcess.ts");
  const figures = await compare({
    section: "cost",
    unit: "µs CPU",
    subjects: [{ name: "bare handler, for an event", run: () => measureBare(load, bare) }],
  });
  const others = await withEachQueue(deps, load, async (queue, running) => {
    for (let round = 0; round < WARM_UP_ROUNDS; round += 1) await measure(deps, running);
    return compare({
      section: "cost",
      unit: "/s",
      subjects: listSubjects(deps, running, queue),
      limit: {
        name: "limit: bare handler that verifies and parses",
        run: () => send(load, bare, { requests: EVENTS }),
      },
    });
  });
  return [...figures, ...others];
};

/** What Node's HTTP, the signature and JSON cost alone: nothing of it can be saved in a web process. */
async function measureBare(load: Child, bare: Child): Promise<Sample> {
  const before = await readProcessorTime(bare.pid);
  const { errors } = await send(load, bare, { requests: EVENTS });
  return { value: ((await readProcessorTime(bare.pid)) - before) / EVENTS, errors };
}

/** The first of them measures all others. */
function listSubjects(deps: BenchDeps, running: Running, queue: string): Subject[] {
  let measured: Measured = { perSecond: 0, errors: 0, web: 0, worker: 0, Postgres: 0 };
  const sustained: Subject = {
    name: `queue in ${queue}, as many as go through`,
    goal: "at least 0.45 of the limit",
    async run() {
      measured = await measure(deps, running);
      return { value: measured.perSecond, errors: measured.errors };
    },
  };
  const costs = (Object.keys(COSTS) as (keyof typeof COSTS)[]).map((role): Subject => ({
    name: `queue in ${queue}, ${role}, for an event`,
    goal: COSTS[role],
    unit: "µs CPU",
    run: () => Promise.resolve({ value: measured[role], errors: 0 }),
  }));
  return [sustained, ...costs];
}

/** From the first event in the mirror to the last one, so that no remaining backlog improves the figure. */
async function measure({ pool }: BenchDeps, running: Running): Promise<Measured> {
  const { web, worker } = running;
  const readTimes = () =>
    Promise.all([readProcessorTime(web.pid), readProcessorTime(worker.pid), readServerTime(pool)]);
  const before = await readTimes();
  const { appliedAtMs, errors } = await sendRound(running, { requests: EVENTS });
  const after = await readTimes();
  const [forWeb = 0, forWorker = 0, forPostgres = 0] = after.map(
    (micros, index) => (micros - (before[index] ?? 0)) / EVENTS,
  );
  const applied = appliedAtMs.filter((atMs) => atMs > 0).toSorted();
  const seconds = ((applied.at(-1) ?? 0) - (applied[0] ?? 0)) / 1_000;
  const perSecond = applied.length / seconds;
  return { perSecond, errors, web: forWeb, worker: forWorker, Postgres: forPostgres };
}

/** What /proc shows of a process; times in microseconds. */
interface ProcessTime {
  readonly parent: number;
  readonly own: number;
  /** Of children that have ended. */
  readonly ended: number;
}

/** Processor time of all threads of a process so far, in microseconds. Rejects where there is no /proc. */
async function readProcessorTime(pid: number): Promise<number> {
  return (await readProcess(pid)).own;
}

/** That of a Postgres server: all of its processes, including those that have ended. */
async function readServerTime(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ pid: number }>("select pg_backend_pid() as pid");
  const { parent: postmaster } = await readProcess(rows[0]?.pid ?? 0);
  const { own, ended } = await readProcess(postmaster);
  const pids = (await readdir("/proc")).map(Number).filter((pid) => pid > 0);
  // One that has just ended is counted by its parent.
  const processes = await Promise.all(pids.map((pid) => readProcess(pid).catch(() => undefined)));
  const children = processes.filter((each) => each?.parent === postmaster);
  return children.reduce((sum, child) => sum + (child?.own ?? 0), own + ended);
}

async function readProcess(pid: number): Promise<ProcessTime> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8");
  // The name in parentheses may contain anything. After it: state, parent, and from the twelfth on the times.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const micros = (from: number) => (Number(fields[from]) + Number(fields[from + 1])) * MICROS_PER_TICK;
  return { parent: Number(fields[1]), own: micros(11), ended: micros(13) };
}
