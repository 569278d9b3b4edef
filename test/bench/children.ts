import { fork } from "node:child_process";
import path from "node:path";
import type { Pool } from "../../src/database/database.ts";
import { canStartRedis, startRedis } from "../support/servers/redis.ts";
import { WEBHOOK_SECRET } from "../support/signing/signing.ts";
import type { Figure } from "./measure.ts";
import type { LoadAnswer, LoadOrder } from "./processes/load.ts";
import type { RoundAnswer } from "./processes/roleProcess.ts";

const CONNECTIONS = 64;

/** A section's environment: its own durable, migrated server with the source `live`. */
export interface BenchDeps {
  readonly pool: Pool;
  readonly databaseUrl: string;
  /** Registers a function to call at the end of the section, the last one first. */
  readonly onEnd: (stop: () => Promise<void>) => void;
}

export type Bench = (deps: BenchDeps) => Promise<Figure[]>;

/** A process of the bench that answers one order at a time. */
export type Child = Awaited<ReturnType<typeof startChild>>;

interface ChildOptions {
  readonly args?: readonly string[];
  readonly env?: Record<string, string>;
  /**
   * By default those of the script in package.json: the options of the roles, and a loader that leaves the code like the
   * build. tsx wraps every inner function to keep its name, which costs a receiver a quarter of its speed.
   */
  readonly nodeOptions?: readonly string[];
}

/**
 * Starts a load generator with memory for everything that it prepares: its own pauses would cause bursts and look like
 * pauses of the receiver. It ends with the section.
 */
export function startLoad(deps: BenchDeps): Promise<Child> {
  const nodeOptions = ["--max-semi-space-size=64", "--expose-gc", "--import", "ts-blank-space/register"];
  return startChild(deps, "load.ts", { nodeOptions });
}

/** Starts a script of this folder as a process that ends with the section; resolves when it has sent its first message. */
export async function startChild(
  { onEnd }: Pick<BenchDeps, "onEnd">,
  script: string,
  { args = [], env = {}, nodeOptions = process.execArgv }: ChildOptions = {},
) {
  const { PATH = "", HOME = "", TMPDIR = "/tmp" } = process.env;
  const child = fork(path.join(import.meta.dirname, "processes", script), [...args], {
    execArgv: [...nodeOptions],
    // Without the machine's own settings.
    env: { PATH, HOME, TMPDIR, ...env },
    serialization: "advanced",
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const stop = () => {
    child.kill("SIGTERM");
    return ended;
  };
  onEnd(stop);
  const next = () =>
    Promise.race([
      new Promise<unknown>((resolve) => child.once("message", resolve)),
      ended.then(() => Promise.reject(new Error(`${script} ended`))),
    ]);
  /** The message that the process sends once it is ready. */
  const greeting = await next();
  return {
    pid: child.pid ?? 0,
    greeting,
    async ask<Answer>(order: object) {
      const answer = next();
      child.send(order);
      return (await answer) as Answer;
    },
    stop,
  };
}

/** The processes that an event goes through. */
export interface Running {
  readonly load: Child;
  readonly web: Child;
  readonly worker: Child;
}

/**
 * Measures with each queue in turn, in Redis and in Postgres, with a web and a worker process that use it. Prints a notice
 * if one cannot be started here.
 */
export async function withEachQueue(
  deps: BenchDeps,
  load: Child,
  measure: (queue: "Redis" | "Postgres", running: Running) => Promise<Figure[]>,
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const queue of ["Redis", "Postgres"] as const) {
    if (queue === "Redis" && !canStartRedis) {
      process.stderr.write("NOT MEASURED: the queue in Redis. There is no redis-server.\n");
      continue;
    }
    const redis = queue === "Redis" ? await startRedis() : undefined;
    deps.onEnd(async () => redis?.stop());
    const env = makeEnvironment(deps.databaseUrl, redis?.url);
    const web = await startChild(deps, "roleProcess.ts", { args: ["web"], env });
    const worker = await startChild(deps, "roleProcess.ts", { args: ["worker"], env });
    figures.push(...(await measure(queue, { load, web, worker })));
    // So that they take no time from the next queue's.
    await Promise.all([web.stop(), worker.stop()]);
  }
  return figures;
}

/** The variables of a process of the product with the single source `live`. */
function makeEnvironment(databaseUrl: string, redisUrl: string | undefined) {
  return {
    DATABASE_URL: databaseUrl,
    ...(redisUrl === undefined ? {} : { REDIS_URL: redisUrl }),
    // Nothing answers there, and nothing is requested.
    DELIVERY_BASE_URL: "http://127.0.0.1:9",
    DELIVERY_LIVE_API_KEY: "dos_live_sandbox",
    DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    PORT: "0",
    // The read API answers without a token.
    LOCAL_TRUST: "true",
    LOG_LEVEL: "warn",
  };
}

let rounds = 0;

/** A number unique to this round of the run. */
export function nextRound(): number {
  rounds += 1;
  return rounds;
}

type RoundOrder = Pick<LoadOrder, "requests" | "perSecond">;

/** Sends events to a receiver that sent its address as its greeting. */
export function send(load: Child, { greeting }: Child, order: RoundOrder, round = nextRound()) {
  const url = `${String(greeting)}/webhooks/live`;
  return load.ask<LoadAnswer>({ url, connections: CONNECTIONS, round, ...order });
}

/** Sends events, and waits until each is in the mirror; one that never arrives counts as an error. */
export async function sendRound({ load, web, worker }: Running, order: RoundOrder) {
  const round = nextRound();
  const [sent, appliedAtMs] = await Promise.all([
    send(load, web, order, round),
    worker.ask<RoundAnswer>({ round, count: order.requests }),
  ]);
  const errors = sent.errors + appliedAtMs.filter((atMs) => atMs === 0).length;
  return { sentAtMs: sent.sentAtMs, appliedAtMs, errors };
}
