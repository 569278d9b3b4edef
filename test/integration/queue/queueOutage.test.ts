import { createServer } from "node:net";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { makeApplyQueue, type ApplyQueue } from "../../../src/queue/applyQueue.ts";
import { readQueueFacts } from "../../../src/mirror/health.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { startOwnPostgres } from "../../support/servers/ownPostgres.ts";
import {
  SHORT_BACKOFF,
  SHORT_LIVED_WORKER,
  canStartRedis,
  startRedis,
  type TestRedis,
} from "../../support/servers/redis.ts";
import { endsWithin } from "../../support/virtual/simulatedClock.ts";
import { logInto } from "../../support/run/logInto.ts";

/** What Postgres answers while it recovers: the code 57P03. */
const STARTING_UP = makePostgresError("57P03", "the database system is starting up");
const PATIENCE = { timeout: 60_000, interval: 20 };
/** Longest close, whatever the server does: 3 s for the worker, 2 s each for sender and queue. */
const CLOSE_LIMIT_MS = 7_000;

function makePostgresError(code: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
  const length = Buffer.alloc(4);
  length.writeInt32BE(fields.length + 4);
  return Buffer.concat([Buffer.from("E"), length, fields]);
}

describe.runIf(canStartRedis)("the queue while Redis fails", () => {
  const lines: string[] = [];
  const taken: number[] = [];
  const closes: (() => Promise<void>)[] = [];
  const apply = async (seqs: readonly number[]) => void taken.push(...seqs);
  let redis: TestRedis;

  async function open(...redisUrls: readonly string[]): Promise<ApplyQueue> {
    const queue = await makeApplyQueue({
      mirrorId: "test",
      databaseUrl: "",
      redisUrls: redisUrls.length === 0 ? [redis.url] : redisUrls,
      logger: logInto((line) => lines.push(line)),
      overrides: { jobOptions: SHORT_BACKOFF, workerOptions: SHORT_LIVED_WORKER },
    });
    closes.unshift(() => queue.close());
    return queue;
  }
  async function consume(queue: ApplyQueue): Promise<void> {
    const consumer = await queue.consume(apply);
    closes.unshift(() => consumer.close());
  }
  /** Notifies until the position arrives, like a stream of events. */
  async function notifyUntilTaken(queue: ApplyQueue, seq: number): Promise<void> {
    await vi.waitFor(() => {
      queue.notify([seq]);
      expect(taken).toContain(seq);
    }, PATIENCE);
  }

  beforeEach(async () => {
    lines.length = 0;
    taken.length = 0;
    redis = await startRedis();
  });
  afterEach(async () => {
    for (const close of closes.splice(0)) await close();
    await redis.stop();
  });

  it.each<[string, (queue: ApplyQueue) => Promise<unknown>]>([
    ["was killed and restarted", () => redis.kill().then(() => redis.restart())],
    ["was flushed", () => redis.flush()],
    [
      "was frozen, without blocking or throwing",
      async (queue) => {
        redis.freeze();
        // Waiting for a single answer would last until it resumes.
        for (let seq = 100; seq < 20_000; seq += 1) queue.notify([seq]);
        expect(lines.join("")).toContain("too many wait to be enqueued");
        await vi.waitFor(() => expect(lines.join("")).toContain("the queue refused the job"), PATIENCE);
        redis.thaw();
      },
    ],
  ])("continues after Redis %s", async (_, outage) => {
    const queue = await open();
    await consume(queue);
    await notifyUntilTaken(queue, 1);
    await outage(queue);
    await notifyUntilTaken(queue, 2);
    expect(taken).toEqual(expect.arrayContaining([1, 2]));
  });

  it("starts without Redis, and works once Redis is available", async () => {
    await redis.kill();
    const queue = await open();
    await consume(queue);
    queue.notify([1]);
    await vi.waitFor(() => expect(lines.join("")).toContain("the queue cannot be reached"), PATIENCE);
    await redis.restart();
    await notifyUntilTaken(queue, 2);
    expect(taken).not.toContain(1);
  });

  it("closes in time while Redis is frozen, dead, or was never available", async () => {
    const trouble = [async () => redis.freeze(), () => redis.kill(), async () => undefined];
    for (const [place, begin] of trouble.entries()) {
      const queue = await open();
      const consumer = await queue.consume(apply);
      if (place < 2) await notifyUntilTaken(queue, place + 1);
      await begin();
      queue.notify([9]);
      const close = () => consumer.close().then(() => queue.close());
      expect(await endsWithin(CLOSE_LIMIT_MS, close)).toBe(true);
      redis.thaw();
    }
  });

  it("reports that Redis does not answer, frozen or dead, within 5 s", async () => {
    const queue = await open();
    const problems = async () => (await readQueueFacts(queue, 3_000)).problems.map(({ problem }) => problem);
    expect(await problems()).toEqual([]);
    const away = [expect.stringMatching(/^The queue's server does not answer/)];
    redis.freeze();
    expect(await endsWithin(5_000, async () => expect(await problems()).toEqual(away))).toBe(true);
    redis.thaw();
    await redis.kill();
    expect(await endsWithin(5_000, async () => expect(await problems()).toEqual(away))).toBe(true);
  });
});

it("the queue while its Postgres fails continues after Postgres was frozen, and after it was stopped and restarted", async () => {
  const postgres = await startOwnPostgres();
  onTestFinished(() => postgres.remove());
  const lines: string[] = [];
  const queue = await makeApplyQueue({
    mirrorId: "test",
    databaseUrl: postgres.url,
    redisUrls: [],
    logger: logInto((line) => lines.push(line)),
    overrides: { workerOptions: SHORT_LIVED_WORKER },
  });
  const taken: number[] = [];
  const consumer = await queue.consume(async (seqs) => void taken.push(...seqs));
  const notifyUntilTaken = (seq: number) =>
    vi.waitFor(() => {
      queue.notify([seq]);
      expect(taken).toContain(seq);
    }, PATIENCE);
  await notifyUntilTaken(1);

  await postgres.freeze();
  // Waiting for an answer would last until it resumes.
  queue.notify([2]);
  await vi.waitFor(() => expect(lines.join("")).toContain("the queue does not answer"), PATIENCE);
  postgres.thaw();
  await notifyUntilTaken(3);

  await postgres.stop();
  queue.notify([4]);
  await postgres.start();
  await notifyUntilTaken(5);

  await postgres.freeze();
  expect(await endsWithin(CLOSE_LIMIT_MS, () => consumer.close().then(() => queue.close()))).toBe(true);
});

it("a queue whose Postgres is starting up is asked for jobs only with pauses, and continues once Postgres is up", async () => {
  const postgres = await startOwnPostgres();
  onTestFinished(() => postgres.remove());
  const queue = await makeApplyQueue({
    mirrorId: "test",
    databaseUrl: postgres.url,
    redisUrls: [],
    logger: silentLogger,
  });
  onTestFinished(() => queue.close());
  const taken: number[] = [];
  const consumer = await queue.consume(async (seqs) => void taken.push(...seqs));
  onTestFinished(() => consumer.close());

  await postgres.stop();
  let connections = 0;
  const startingUp = createServer((socket) => {
    connections += 1;
    socket.on("error", () => undefined);
    socket.on("data", () => socket.end(STARTING_UP));
  });
  await new Promise<void>((resolve) =>
    startingUp.listen(Number(new URL(postgres.url).port), "127.0.0.1", resolve),
  );
  await expect.poll(() => connections, PATIENCE).toBeGreaterThan(0);
  const before = connections;
  const startedMs = performance.now();
  await expect.poll(() => connections, PATIENCE).toBeGreaterThan(before + 10);
  expect(performance.now() - startedMs).toBeGreaterThan(500);
  await new Promise((resolve) => startingUp.close(resolve));

  await postgres.start();
  await vi.waitFor(() => {
    queue.notify([1]);
    expect(taken).toContain(1);
  }, PATIENCE);
});
