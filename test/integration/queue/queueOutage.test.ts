import { createServer } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { readQueueFacts } from "../../../src/mirror/health.ts";
import { startOwnPostgres } from "../../support/servers/ownPostgres.ts";
import { openQueue, PATIENCE } from "../../support/servers/queue.ts";
import {
  SHORT_BACKOFF,
  SHORT_LIVED_WORKER,
  canStartRedis,
  startRedis,
  type TestRedis,
} from "../../support/servers/redis.ts";
import { endsWithin } from "../../support/virtual/simulatedClock.ts";

/** What Postgres answers while it recovers: the code 57P03. */
const STARTING_UP = makePostgresError("57P03", "the database system is starting up");
/** Longest close, whatever the server does: 3 s for the worker, 2 s each for sender and queue. */
const CLOSE_LIMIT_MS = 7_000;

function makePostgresError(code: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
  const length = Buffer.alloc(4);
  length.writeInt32BE(fields.length + 4);
  return Buffer.concat([Buffer.from("E"), length, fields]);
}

describe.runIf(canStartRedis)("the queue while Redis fails", () => {
  async function start(): Promise<TestRedis> {
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    return redis;
  }
  const open = ({ url }: TestRedis) =>
    openQueue({
      redisUrls: [url],
      overrides: { jobOptions: SHORT_BACKOFF, workerOptions: SHORT_LIVED_WORKER },
    });
  type World = Awaited<ReturnType<typeof open>>;

  it.each<[string, (redis: TestRedis, world: World) => Promise<unknown>]>([
    ["was killed and restarted", (redis) => redis.kill().then(() => redis.restart())],
    ["was flushed", (redis) => redis.flush()],
    [
      "was frozen, without blocking or throwing",
      async (redis, { queue, logged }) => {
        redis.freeze();
        // Waiting for a single answer would last until it resumes.
        for (let seq = 100; seq < 20_000; seq += 1) queue.notify([seq]);
        for (const why of ["too many wait to be enqueued", "the queue refused the job"]) await logged(why);
        redis.thaw();
      },
    ],
  ])("continues after Redis %s", async (_, outage) => {
    const redis = await start();
    const world = await open(redis);
    await world.notifies(1);
    await outage(redis, world);
    await world.notifies(2);
    expect(world.taken).toEqual(expect.arrayContaining([1, 2]));
  });

  it("starts without Redis, and works once Redis is available", async () => {
    const redis = await start();
    await redis.kill();
    const { queue, taken, logged, notifies } = await open(redis);
    queue.notify([1]);
    await logged("the queue cannot be reached");
    await redis.restart();
    await notifies(2);
    expect(taken).not.toContain(1);
  });

  it("closes in time while Redis is frozen, dead, or was never available", async () => {
    const redis = await start();
    for (const trouble of [async () => redis.freeze(), () => redis.kill(), undefined]) {
      const { queue, notifies, close } = await open(redis);
      if (trouble) await notifies(1);
      await trouble?.();
      queue.notify([9]);
      expect(await endsWithin(CLOSE_LIMIT_MS, close)).toBe(true);
      redis.thaw();
    }
  });

  it("reports that Redis does not answer, frozen or dead, within 5 s", async () => {
    const redis = await start();
    const { queue } = await open(redis);
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

async function openOnPostgres(workerOptions = {}) {
  const postgres = await startOwnPostgres();
  onTestFinished(() => postgres.remove());
  return { postgres, ...(await openQueue({ databaseUrl: postgres.url, overrides: { workerOptions } })) };
}

it("the queue while its Postgres fails continues after Postgres was frozen, and after it was stopped and restarted", async () => {
  const { postgres, queue, notifies, logged, close } = await openOnPostgres(SHORT_LIVED_WORKER);
  await notifies(1);

  await postgres.freeze();
  // Waiting for an answer would last until it resumes.
  queue.notify([2]);
  await logged("the queue does not answer");
  postgres.thaw();
  await notifies(3);

  await postgres.stop();
  queue.notify([4]);
  await postgres.start();
  await notifies(5);

  await postgres.freeze();
  expect(await endsWithin(CLOSE_LIMIT_MS, close)).toBe(true);
});

it("a queue whose Postgres is starting up is asked for jobs only with pauses, and continues once Postgres is up", async () => {
  const { postgres, notifies } = await openOnPostgres();
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
  await notifies(1);
});
