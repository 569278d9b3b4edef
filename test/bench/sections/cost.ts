import type { Bench, BenchDeps } from "../bench.ts";
import { startChild } from "../children.ts";
import type { Child } from "../children.ts";
import { amount } from "../effort.ts";
import { startGenerator } from "../generator.ts";
import type { Generate } from "../generator.ts";
import { compare } from "../measure.ts";
import type { Sample, Subject } from "../measure.ts";
import { startPeer } from "../peer.ts";
import { readProcessorTime, readServerTime, requireProcessorTime } from "../processorTime.ts";
import type { RoundAnswer } from "../processes/roleProcess.ts";
import { startWithQueue, webhookAddress } from "../roles.ts";
import { nextRound } from "../timeEvents.ts";

const CONNECTIONS = 64;
const EVENTS = amount(30_000);
const PEER_EVENTS = amount(10_000);
const WARM_UP_ROUNDS = 2;

/** `--peer` installs the peer and measures it in the same run. */
const WITH_PEER = process.argv.includes("--peer");

/** The pause after which a bare handler answers events together: about as many per second as go through. */
const PAUSE_MS = 12;

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
  const bare = await startBare(deps);
  const paused = await startBare(deps, [String(PAUSE_MS)]);
  const peer = WITH_PEER
    ? await startPeer({ databaseUrl: await deps.addDatabase("peer"), onEnd: deps.onEnd })
    : undefined;
  const figures = await compare({
    section: "cost",
    unit: "µs CPU",
    subjects: [
      { name: "bare handler, for an event", run: () => measureBare(generate, bare) },
      {
        name: `bare handler that answers after ${PAUSE_MS} ms, for an event`,
        run: () => measureBare(generate, paused),
      },
    ],
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
          run: () => send(generate, bareAddress(bare)),
        },
      })),
    );
    for (const child of [running.web, running.worker]) await child.stop();
  }
  return figures;
};

async function startBare({ onEnd }: BenchDeps, args: readonly string[] = []): Promise<Child> {
  const bare = await startChild("bareReceiveProcess.ts", { args });
  onEnd(bare.stop);
  return bare;
}

function bareAddress(bare: Child): string {
  return `${String(bare.greeting)}/webhooks/live`;
}

/** What Node's HTTP, the signature and JSON cost alone: nothing of it can be saved in a web process. */
async function measureBare(generate: Generate, bare: Child): Promise<Sample> {
  const before = await readProcessorTime(bare.pid);
  const { errors } = await send(generate, bareAddress(bare));
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
