import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import type { Pool } from "../../../src/database/database.ts";
import type { Bench, BenchDeps } from "../bench.ts";
import { startChild, startWithQueue, webhookAddress, type Child } from "../children.ts";
import { amount } from "../effort.ts";
import { startGenerator, type Generate } from "../generator.ts";
import { compare, type Sample, type Subject } from "../measure.ts";
import type { RoundAnswer } from "../processes/roleProcess.ts";
import { nextRound } from "../timeEvents.ts";

const CONNECTIONS = 64;
const EVENTS = amount(30_000);
const PEER_EVENTS = amount(10_000);
const WARM_UP_ROUNDS = 2;

/** `--peer` installs the peer and measures it in the same run. */
const WITH_PEER = process.argv.includes("--peer");
/** The nearest other program: it mirrors Stripe's objects into Postgres. */
const PACKAGES = ["@supabase/stripe-sync-engine@0.48.5", "stripe@23.1.0"];

/** The kernel shows it in hundredths of a second. */
const MICROS_PER_TICK = 10_000;

/** Processor time per event in microseconds, and the goal. */
const COSTS = { web: "at most 60", worker: "at most 40", Postgres: "at most 80" } as const;
type Costs = Readonly<Record<keyof typeof COSTS, number>>;

interface Measured extends Costs {
  readonly perSecond: number;
  readonly errors: number;
}

/** The processes of a run. */
interface Running {
  readonly generate: Generate;
  readonly web: Child;
  readonly worker: Child;
}

/**
 * What an event costs on its way into the mirror at full rate, and how many go through, next to a bare handler and, with
 * --peer, to the peer.
 */
export const benchCost: Bench = async (deps) => {
  requireProcessorTime();
  const generate = await startGenerator(deps.onEnd);
  const bare = await startChild("bareReceiveProcess.ts");
  deps.onEnd(bare.stop);
  const peer = WITH_PEER ? await startPeer(deps) : undefined;
  const figures = await compare({
    section: "cost",
    unit: "µs CPU",
    subjects: [{ name: "bare handler, for an event", run: () => measureBare(generate, bare) }],
  });
  for (const queue of ["Redis", "Postgres"] as const) {
    const roles = await startWithQueue(queue, deps);
    if (roles === undefined) continue;
    const running = { generate, ...roles };
    for (let round = 0; round < WARM_UP_ROUNDS; round += 1) await measure(deps, running);
    figures.push(
      ...(await compare({
        section: "cost",
        unit: "/s",
        subjects: listSubjects(deps, { running, peer, queue }),
        limit: {
          name: "limit: bare handler that verifies and parses",
          run: () => send(generate, webhookAddress(bare)),
        },
      })),
    );
    for (const child of [running.web, running.worker]) await child.stop();
  }
  return figures;
};

/** What Node's HTTP, the signature and JSON cost alone: nothing of it can be saved in a web process. */
async function measureBare(generate: Generate, bare: Child): Promise<Sample> {
  const before = await readProcessorTime(bare.pid);
  const { errors } = await send(generate, webhookAddress(bare));
  return { value: ((await readProcessorTime(bare.pid)) - before) / EVENTS, errors };
}

/** The first of them measures all others but the peer. */
function listSubjects(
  deps: BenchDeps,
  { running, peer, queue }: { running: Running; peer: Child | undefined; queue: string },
): Subject[] {
  let measured: Measured = { perSecond: 0, errors: 0, web: 0, worker: 0, Postgres: 0 };
  let peerPerSecond = 0;
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
  if (peer === undefined) return [sustained, ...costs];
  const peerAlone: Subject = {
    name: "the peer, which upserts each event",
    async run() {
      const sample = await send(running.generate, String(peer.greeting), "stripe");
      peerPerSecond = sample.value;
      return sample;
    },
  };
  const ratio: Subject = {
    name: `queue in ${queue}, as many as go through`,
    goal: "at least 4",
    unit: "times the peer",
    run: () => Promise.resolve({ value: measured.perSecond / peerPerSecond, errors: 0 }),
  };
  return [sustained, ...costs, peerAlone, ratio];
}

function send(generate: Generate, url: string, sender?: "stripe"): Promise<Sample> {
  const requests = sender === undefined ? EVENTS : PEER_EVENTS;
  return generate({ url, requests, connections: CONNECTIONS, round: nextRound(), ...(sender && { sender }) });
}

/** From the first event in the mirror to the last one, so that no remaining backlog improves the figure. */
async function measure({ pool }: BenchDeps, { generate, web, worker }: Running): Promise<Measured> {
  const round = nextRound();
  const readTimes = () =>
    Promise.all([readProcessorTime(web.pid), readProcessorTime(worker.pid), readServerTime(pool)]);
  const before = await readTimes();
  const [sent, decidedAtMs] = await Promise.all([
    generate({ url: webhookAddress(web), requests: EVENTS, connections: CONNECTIONS, round }),
    worker.ask<RoundAnswer>({ round, count: EVENTS }),
  ]);
  const after = await readTimes();
  const [forWeb = 0, forWorker = 0, forPostgres = 0] = after.map(
    (micros, index) => (micros - (before[index] ?? 0)) / EVENTS,
  );
  const decided = decidedAtMs.filter((atMs) => atMs > 0).toSorted();
  const seconds = ((decided.at(-1) ?? 0) - (decided[0] ?? 0)) / 1_000;
  return {
    perSecond: decided.length / seconds,
    errors: sent.errors + EVENTS - decided.length,
    web: forWeb,
    worker: forWorker,
    Postgres: forPostgres,
  };
}

/** Installs the peer into a folder of its own, removed at the end, and starts it on a database of its own. */
async function startPeer({ addDatabase, onEnd }: BenchDeps): Promise<Child> {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-bench-peer-"));
  onEnd(() => rm(folder, { recursive: true, force: true }));
  const options = ["--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts"];
  await promisify(execFile)("npm", ["install", ...options, ...PACKAGES], { cwd: folder });
  const peer = await startChild("peerProcess.ts", {
    args: [folder],
    env: { DATABASE_URL: await addDatabase("peer") },
  });
  onEnd(peer.stop);
  return peer;
}

/** What /proc shows of a process; times in microseconds. */
interface ProcessTime {
  readonly parent: number;
  readonly own: number;
  /** Of children that have ended. */
  readonly ended: number;
}

/** Throws where the processor time of other processes is not shown. */
function requireProcessorTime(): void {
  if (process.platform !== "linux")
    throw new Error("Only Linux shows the processor time of a server's processes.");
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
