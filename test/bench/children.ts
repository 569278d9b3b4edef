import { fork } from "node:child_process";
import path from "node:path";
import { canStartRedis, startRedis } from "../support/servers/redis.ts";
import { WEBHOOK_SECRET } from "../support/signing/signing.ts";
import type { BenchDeps } from "./bench.ts";

/** A process of the bench that answers one order at a time. */
export interface Child {
  readonly pid: number;
  /** The message that the process sends once it is ready. */
  readonly greeting: unknown;
  readonly ask: <Answer>(order: object) => Promise<Answer>;
  readonly stop: () => Promise<void>;
}

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
 * pauses of the receiver.
 */
export function startLoad(): Promise<Child> {
  const nodeOptions = ["--max-semi-space-size=64", "--expose-gc", "--import", "ts-blank-space/register"];
  return startChild("load.ts", { nodeOptions });
}

/** Starts a script of this folder as a separate process; resolves when it has sent its first message. */
export async function startChild(
  script: string,
  { args = [], env = {}, nodeOptions = process.execArgv }: ChildOptions = {},
): Promise<Child> {
  const { PATH = "", HOME = "", TMPDIR = "/tmp" } = process.env;
  const child = fork(path.join(import.meta.dirname, "processes", script), [...args], {
    execArgv: [...nodeOptions],
    // Without the machine's own settings.
    env: { PATH, HOME, TMPDIR, ...env },
    serialization: "advanced",
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const next = () =>
    Promise.race([
      new Promise<unknown>((resolve) => child.once("message", resolve)),
      ended.then(() => Promise.reject(new Error(`${script} ended`))),
    ]);
  const greeting = await next();
  return {
    pid: child.pid ?? 0,
    greeting,
    async ask<Answer>(order: object) {
      const answer = next();
      child.send(order);
      return (await answer) as Answer;
    },
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
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

/**
 * Starts a queue, and a web and a worker process that use it; they end with the section. Undefined, with a notice, if the
 * queue cannot be started here.
 */
export async function startWithQueue(queue: "Redis" | "Postgres", { databaseUrl, onEnd }: BenchDeps) {
  if (queue === "Redis" && !canStartRedis) {
    process.stderr.write("NOT MEASURED: the queue in Redis. There is no redis-server.\n");
    return undefined;
  }
  const redis = queue === "Redis" ? await startRedis() : undefined;
  onEnd(async () => redis?.stop());
  const env = makeEnvironment(databaseUrl, redis?.url);
  const web = await startChild("roleProcess.ts", { args: ["web"], env });
  onEnd(web.stop);
  const worker = await startChild("roleProcess.ts", { args: ["worker"], env });
  onEnd(worker.stop);
  return { web, worker };
}

/** The webhook address of the source `live`. */
export function webhookAddress(web: Child): string {
  return `${String(web.greeting)}/webhooks/live`;
}

let rounds = 0;

/** A number unique to this round of the run. */
export function nextRound(): number {
  rounds += 1;
  return rounds;
}
