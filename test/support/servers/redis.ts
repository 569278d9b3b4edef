import { spawn, type ChildProcess } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Redis } from "ioredis";
import { afterAll } from "vitest";
import { systemClock } from "../../../src/process/clock.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { canRun } from "../programs/processes.ts";
import { openTestDatabase } from "./database.ts";

const START_TIMEOUT_MS = 60_000;
const START_POLL_MS = 10;
const REDIS_BINARY = process.env["REDIS_SERVER"] ?? "redis-server";

/** Whether tests can start their own Redis: needed to kill, freeze and restart it. */
export const canStartRedis = canRun(REDIS_BINARY);
/** Whether tests have any Redis: their own, or one at TEST_REDIS_URL whose data they may destroy. */
export const redisAvailable = canStartRedis || process.env["TEST_REDIS_URL"] !== undefined;

if (!redisAvailable) {
  // oxlint-disable-next-line no-console -- whoever runs the tests must know what they did not prove
  console.warn(
    "NOT RUN: the tests on Redis. No redis-server on the PATH; install it, or set REDIS_SERVER or TEST_REDIS_URL.",
  );
} else if (!canStartRedis) {
  // oxlint-disable-next-line no-console -- as above
  console.warn("NOT RUN: the tests that kill or freeze Redis. TEST_REDIS_URL is not ours to kill.");
}

export interface TestRedis {
  readonly url: string;
  /** Ends the server as a power failure would, except for what the system still writes. */
  kill(): Promise<void>;
  /** Starts it again on the same port and data. */
  restart(): Promise<void>;
  /** Freezes it: connections stay open and nothing answers. */
  freeze(): void;
  thaw(): void;
  flush(): Promise<void>;
  /** Starts it again without anything that it held, as after the loss of its disk. */
  restartEmpty(): Promise<void>;
  /** Copies what it holds, for `restore`. */
  backUp(): Promise<void>;
  /** Starts it again with what it held when it was copied. */
  restore(): Promise<void>;
  /** Ends the server and removes its data; with TEST_REDIS_URL it only empties it. */
  stop(): Promise<void>;
}

/** A private server on a free port, with `settings` as on the command line; or the one at TEST_REDIS_URL. */
export async function startRedis(...settings: readonly string[]): Promise<TestRedis> {
  if (!canStartRedis) return useGivenRedis(process.env["TEST_REDIS_URL"] ?? "");
  const port = await findFreePort();
  const dir = await mkdtemp(path.join(tmpdir(), "order-mirror-redis-"));
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--dir", dir, "--save", ""];
  const url = `redis://127.0.0.1:${port}`;
  let server: ChildProcess | undefined;

  async function start(): Promise<void> {
    server = spawn(REDIS_BINARY, [...args, "--appendonly", "yes", ...settings], { stdio: "ignore" });
    const deadlineMs = performance.now() + START_TIMEOUT_MS;
    while (!(await answers(port))) {
      if (performance.now() > deadlineMs) throw new Error(`redis-server did not start on port ${port}`);
      await systemClock.sleep(START_POLL_MS);
    }
  }
  const data = path.join(dir, "appendonlydir");
  const copy = path.join(dir, "copy");
  async function kill(): Promise<void> {
    const running = server;
    if (!running || running.exitCode !== null || running.signalCode !== null) return;
    const ended = new Promise((resolve) => running.once("exit", resolve));
    running.kill("SIGKILL");
    await ended;
  }
  await start();
  return {
    url,
    kill,
    restart: start,
    freeze: () => server?.kill("SIGSTOP"),
    thaw: () => server?.kill("SIGCONT"),
    flush: () => flushAll(url),
    async restartEmpty() {
      await kill();
      await rm(data, { recursive: true, force: true });
      await start();
    },
    async backUp() {
      await rm(copy, { recursive: true, force: true });
      await cp(data, copy, { recursive: true });
    },
    async restore() {
      await kill();
      await rm(data, { recursive: true, force: true });
      await cp(copy, data, { recursive: true });
      await start();
    },
    async stop() {
      await kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

function useGivenRedis(url: string): TestRedis {
  const refuse = () => {
    throw new Error("the Redis at TEST_REDIS_URL is not ours to kill or freeze");
  };
  return {
    url,
    kill: refuse,
    restart: refuse,
    freeze: refuse,
    thaw: refuse,
    restartEmpty: refuse,
    backUp: refuse,
    restore: refuse,
    flush: () => flushAll(url),
    stop: () => flushAll(url),
  };
}

async function flushAll(url: string): Promise<void> {
  const client = new Redis(url);
  try {
    await client.flushall();
  } finally {
    client.disconnect();
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(port, "127.0.0.1");
    const finish = (answered: boolean) => {
      socket.destroy();
      resolve(answered);
    };
    socket.once("connect", () => socket.write("PING\r\n"));
    socket.once("data", (answer) => finish(answer.toString().startsWith("+PONG")));
    socket.once("error", () => finish(false));
    socket.once("close", () => finish(false));
  });
}

/** Places for the queue, and whether they can be tested here. */
export const QUEUE_BACKENDS = [
  { backend: "Postgres", runs: true },
  { backend: "Redis", runs: redisAvailable },
] as const;

/** A database and a Redis for all tests of the file; no Redis where none is found. */
export async function openQueueServers() {
  const { database } = await openTestDatabase();
  const redis = redisAvailable ? await startRedis() : undefined;
  afterAll(() => redis?.stop());
  /** The queue's settings for this place. */
  const redisUrls = (backend: "Postgres" | "Redis") => (backend === "Redis" && redis ? [redis.url] : []);
  return { database, redis, redisUrls };
}

/** Times of a worker whose death is noticed in about a second, instead of ten seconds as in the product. */
export const SHORT_LIVED_WORKER = { lockDuration: 500, stalledInterval: 500 } as const;
/** The product begins with a second. */
export const SHORT_BACKOFF = { backoff: { type: "exponential", delay: 100, jitter: 0.5 } } as const;
