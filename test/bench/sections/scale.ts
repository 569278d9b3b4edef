import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import type { Pool } from "../../../src/database/database.ts";
import type { Bench, BenchDeps } from "../bench.ts";
import type { Child } from "../children.ts";
import { amount, RUNS } from "../effort.ts";
import { startGenerator } from "../generator.ts";
import type { Generate } from "../generator.ts";
import { compare, median } from "../measure.ts";
import type { Figure, Subject } from "../measure.ts";
import { readProcessorTime, readServerTime, requireProcessorTime } from "../processorTime.ts";
import type { RoundAnswer, RoundOrder } from "../processes/roleProcess.ts";
import { startQueue, startRole, webhookAddress } from "../roles.ts";
import { nextRound } from "../timeEvents.ts";

const SECTION = "scale";
const PAIRS = [1, 2, 4] as const;
/** Of each web process, so that batches are as full, and each process as warm, as one alone. */
const EVENTS = amount(10_000);
const CONNECTIONS = 64;
const WARM_UP_ROUNDS = 2;
const PATIENCE_MS = 60_000;
const LOOK_MS = 50;

/** A web and a worker process. */
interface Pair {
  readonly web: Child;
  readonly worker: Child;
}

interface Measured {
  /** Processor time per event of all processes, in microseconds. */
  readonly web: number;
  readonly worker: number;
  readonly Postgres: number;
  readonly Redis: number;
  readonly transactions: number;
  /** Events that two workers decided, per thousand. */
  readonly decidedTwice: number;
  /** Share of the looks at which a process of Postgres waited for a lock, in percent. */
  readonly waiting: number;
  readonly errors: number;
}

/**
 * What an event costs with one, two and four pairs of a web and a worker process, each web process as loaded as the
 * others. Two processors do not process more with more processes; but what processes share, and what they do twice, costs
 * processor time.
 */
export const benchScale: Bench = async (deps) => {
  requireProcessorTime();
  const generate = await startGenerator(deps.onEnd);
  const figures: Figure[] = [];
  for (const queue of ["Redis", "Postgres"] as const) {
    const env = await startQueue(queue, deps);
    if (env === undefined) continue;
    const costs = new Map<number, readonly number[]>();
    for (const count of PAIRS) {
      const pairs = await startPairs(count, env);
      try {
        const world = { ...deps, generate, pairs, redisUrl: env.REDIS_URL };
        for (let round = 0; round < WARM_UP_ROUNDS; round += 1) await measure(world);
        const { subjects, totals } = listSubjects(
          world,
          `queue in ${queue}, ${count} web and worker processes`,
        );
        figures.push(...(await compare({ section: SECTION, unit: "µs CPU", subjects })));
        // Without the run that warms up.
        costs.set(count, totals.slice(-RUNS));
      } finally {
        for (const { web, worker } of pairs) await Promise.all([web.stop(), worker.stop()]);
      }
    }
    for (const count of PAIRS.slice(1)) figures.push(toRatio(queue, count, costs));
  }
  return figures;
};

async function startPairs(count: number, env: Record<string, string>): Promise<Pair[]> {
  const pairs: Pair[] = [];
  for (let pair = 0; pair < count; pair += 1)
    pairs.push({ web: await startRole("web", env), worker: await startRole("worker", env) });
  return pairs;
}

interface World extends BenchDeps {
  readonly generate: Generate;
  readonly pairs: readonly Pair[];
  readonly redisUrl: string | undefined;
}

/** The first of them measures all. */
function listSubjects(world: World, name: string): { subjects: Subject[]; totals: number[] } {
  const totals: number[] = [];
  let measured: Measured;
  const all: Subject = {
    name: `${name}, an event`,
    async run() {
      measured = await measure(world);
      const { web, worker, Postgres, Redis: ofRedis, errors } = measured;
      const total = web + worker + Postgres + ofRedis;
      totals.push(total);
      return { value: total, errors };
    },
  };
  const figure = (what: keyof Measured, shown: string, unit?: string): Subject => ({
    name: `${name}, ${shown}`,
    ...(unit === undefined ? {} : { unit }),
    run: () => Promise.resolve({ value: measured[what], errors: 0 }),
  });
  const subjects = [
    all,
    figure("web", "of that web"),
    figure("worker", "of that worker"),
    figure("Postgres", "of that Postgres"),
    ...(world.redisUrl === undefined ? [] : [figure("Redis", "of that Redis")]),
    figure("transactions", "transactions for an event", "transactions"),
    figure("decidedTwice", "events that two workers decided", "of 1,000"),
    figure("waiting", "looks at which somebody waited for a lock", "%"),
  ];
  return { subjects, totals };
}

function toRatio(queue: string, count: number, costs: ReadonlyMap<number, readonly number[]>): Figure {
  const [alone, together] = [costs.get(1) ?? [], costs.get(count) ?? []];
  const ratios = together.map((cost, run) => (alone[run] ?? 0) / cost);
  return {
    section: SECTION,
    name: `queue in ${queue}, throughput for the same processor time with ${count} instead of 1`,
    unit: "times",
    value: { min: Math.min(...ratios), median: median(alone) / median(together), max: Math.max(...ratios) },
    p50Ms: null,
    p99Ms: null,
    ofLimit: null,
    goal: "at least 0.85",
  };
}

async function measure(world: World): Promise<Measured> {
  const { pool, pairs, generate } = world;
  const events = EVENTS * pairs.length;
  const rounds = pairs.map(() => nextRound());
  const before = await readCounts(world);
  const watch = watchLocks(pool);
  const sent = await Promise.all(
    pairs.map(({ web }, index) =>
      generate({
        url: webhookAddress(web),
        requests: EVENTS,
        connections: CONNECTIONS,
        round: rounds[index] ?? 0,
      }),
    ),
  );
  await awaitDecided(pool);
  const waiting = await watch.end();
  const after = await readCounts(world);
  const decisions = await Promise.all(pairs.map(({ worker }) => countDecided(worker, rounds)));
  const decided = decisions.reduce((sum, count) => sum + count, 0);
  const perEvent = (name: keyof typeof after) => (after[name] - before[name]) / events;
  return {
    web: perEvent("web"),
    worker: perEvent("worker"),
    Postgres: perEvent("Postgres"),
    Redis: perEvent("Redis"),
    transactions: perEvent("transactions"),
    decidedTwice: (Math.max(0, decided - events) * 1_000) / events,
    waiting,
    errors: sent.reduce((sum, { errors }) => sum + errors, 0) + Math.max(0, events - decided),
  };
}

/** Processor time so far, in microseconds, and how many transactions Postgres has ended. */
async function readCounts({ pool, pairs, redisUrl }: World) {
  const sum = async (pids: readonly number[]) =>
    (await Promise.all(pids.map(readProcessorTime))).reduce((total, micros) => total + micros, 0);
  const { rows } = await pool.query<{ transactions: number }>(
    `select (xact_commit + xact_rollback)::float8 as transactions from pg_stat_database
     where datname = current_database()`,
  );
  return {
    web: await sum(pairs.map(({ web }) => web.pid)),
    worker: await sum(pairs.map(({ worker }) => worker.pid)),
    Postgres: await readServerTime(pool),
    Redis: redisUrl === undefined ? 0 : await readRedisTime(redisUrl),
    transactions: rows[0]?.transactions ?? 0,
  };
}

async function readRedisTime(url: string): Promise<number> {
  const client = new Redis(url);
  const text = await client.info("cpu");
  client.disconnect();
  const seconds = (name: string) => Number(new RegExp(`^used_cpu_${name}:(.+)$`, "m").exec(text)?.[1]);
  return (seconds("user") + seconds("sys")) * 1_000_000;
}

/** Until no event waits for a worker. */
async function awaitDecided(pool: Pool): Promise<void> {
  const giveUpMs = performance.now() + PATIENCE_MS;
  const isWaiting = async () => ((await pool.query("select from mirror.pending limit 1")).rowCount ?? 0) > 0;
  while ((await isWaiting()) && performance.now() < giveUpMs) await sleep(LOOK_MS);
}

async function countDecided(worker: Child, rounds: readonly number[]): Promise<number> {
  let decided = 0;
  for (const round of rounds) {
    const order: RoundOrder = { round, count: EVENTS, isOver: true };
    decided += (await worker.ask<RoundAnswer>(order)).filter((atMs) => atMs > 0).length;
  }
  return decided;
}

/** Looks repeatedly at who waits for a lock of Postgres, until `end`, which returns the share of such looks in percent. */
function watchLocks(pool: Pool): { end(): Promise<number> } {
  let [looks, waits, over] = [0, 0, false];
  const looking = (async () => {
    while (!over) {
      const { rowCount } = await pool.query(
        "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() limit 1",
      );
      looks += 1;
      waits += rowCount ?? 0;
      await sleep(LOOK_MS);
    }
  })();
  return {
    async end() {
      over = true;
      await looking;
      return (100 * waits) / looks;
    },
  };
}
