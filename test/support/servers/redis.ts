import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Redis } from "ioredis";
import { afterAll } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { has } from "../programs/program.ts";
import { openTestDatabase } from "./database.ts";

const REDIS_BINARY = "redis-server";

export const canStartRedis = has(REDIS_BINARY);

if (!canStartRedis) {
  // oxlint-disable-next-line no-console -- whoever runs the tests must know what they did not prove
  console.warn("NOT RUN: the tests on Redis. No redis-server on the PATH.");
}

export type TestRedis = Awaited<ReturnType<typeof startRedis>>;

/** A private server on a free port, with `settings` as on the command line. */
export async function startRedis(...settings: readonly string[]) {
  const port = await findFreePort();
  const dir = await mkdtemp(path.join(tmpdir(), "order-mirror-redis-"));
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--dir", dir, "--save", ""];
  const url = `redis://127.0.0.1:${port}`;
  const [data, copy] = [path.join(dir, "appendonlydir"), path.join(dir, "copy")];
  let server: ChildProcess;

  async function start(): Promise<void> {
    server = spawn(REDIS_BINARY, [...args, "--appendonly", "yes", ...settings], { stdio: "ignore" });
    const client = new Redis(url, { retryStrategy: () => 10, maxRetriesPerRequest: null });
    client.on("error", () => undefined);
    const ended = once(server, "exit").then(() =>
      Promise.reject(new Error(`no redis-server on port ${port}`)),
    );
    await Promise.race([client.ping(), ended]).finally(() => client.disconnect());
  }
  async function kill(): Promise<void> {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGKILL");
    await ended;
  }
  /** Starts it again with nothing but what `bring` puts where its data were. */
  async function restartWith(bring: () => Promise<void>): Promise<void> {
    await kill();
    await rm(data, { recursive: true, force: true });
    await bring();
    await start();
  }
  await start();
  return {
    url,
    /** Ends the server as a power failure would, except for what the system still writes. */
    kill,
    /** Starts it again on the same port and data. */
    restart: start,
    /** Freezes it: connections stay open and nothing answers. */
    freeze: () => void server.kill("SIGSTOP"),
    thaw: () => void server.kill("SIGCONT"),
    async flush() {
      const client = new Redis(url);
      await client.flushall().finally(() => client.disconnect());
    },
    /** Starts it again without anything that it held, as after the loss of its disk. */
    restartEmpty: () => restartWith(() => Promise.resolve()),
    /** Copies what it holds, for `restore`. */
    async backUp() {
      await rm(copy, { recursive: true, force: true });
      await cp(data, copy, { recursive: true });
    },
    /** Starts it again with what it held when it was copied. */
    restore: () => restartWith(() => cp(copy, data, { recursive: true })),
    /** Ends the server and removes its data. */
    async stop() {
      await kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Places for the queue, and whether they can be tested here. */
export const QUEUE_BACKENDS = [
  { backend: "Postgres", runs: true },
  { backend: "Redis", runs: canStartRedis },
] as const;

/** A database and a Redis for all tests of the file; no Redis where none is found. */
export async function openQueueServers() {
  const { database } = await openTestDatabase();
  const redis = canStartRedis ? await startRedis() : undefined;
  afterAll(() => redis?.stop());
  /** The queue's settings for this place. */
  const redisUrls = (backend: "Postgres" | "Redis") => (backend === "Redis" && redis ? [redis.url] : []);
  return { database, redis, redisUrls };
}

/** Times of a worker whose death is noticed in about a second, instead of ten seconds as in the product. */
export const SHORT_LIVED_WORKER = { lockDuration: 500, stalledInterval: 500 } as const;
/** The product begins with a second. */
export const SHORT_BACKOFF = { backoff: { type: "exponential", delay: 100, jitter: 0.5 } } as const;
