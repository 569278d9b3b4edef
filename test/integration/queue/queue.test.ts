import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { ConfigurationError, UnavailableError } from "../../../src/domain/errors.ts";
import { makeApplyQueue } from "../../../src/queue/applyQueue.ts";
import type { ApplyQueue } from "../../../src/queue/applyQueue.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import { QUEUE_BACKENDS, openQueueServers } from "../../support/servers/queueServers.ts";
import { SHORT_LIVED_WORKER } from "../../support/mirror/queueTimes.ts";
import { logInto } from "../../support/run/logInto.ts";

const PATIENCE = { timeout: 60_000, interval: 20 };
const DOOMED_WORKER = path.resolve(import.meta.dirname, "../../support/programs/doomedWorker.ts");

const servers = await openQueueServers();

describe.each(QUEUE_BACKENDS)("the queue on $backend", ({ backend, runs }) => {
  const redisUrls = () => servers.redisUrls(backend);
  const lines: string[] = [];
  let queue: ApplyQueue;

  async function open(logger = silentLogger): Promise<ApplyQueue> {
    const opened = await makeApplyQueue({
      databaseUrl: servers.database.url,
      redisUrls: redisUrls(),
      logger,
      overrides: { backoffMs: 100, workerOptions: SHORT_LIVED_WORKER },
    });
    await opened.bull.waitUntilReady();
    return opened;
  }
  async function consume(apply: (seqs: readonly number[]) => Promise<void>, from = queue): Promise<void> {
    const consumer = await from.consume(apply);
    onTestFinished(() => consumer.close());
  }
  const failedReasons = async () => (await queue.bull.getFailed()).map((job) => job.failedReason);

  beforeEach(async ({ skip }) => {
    if (!runs) skip("no redis-server");
    lines.length = 0;
    queue = await open(logInto((line) => lines.push(line)));
  });
  afterEach(async () => {
    if (!runs) return;
    await queue.bull.obliterate({ force: true });
    await queue.close();
  });

  it("delivers a notified batch once, to one worker", async () => {
    const taken: number[][] = [];
    const other = await open();
    onTestFinished(() => other.close());
    await consume(async (seqs) => void taken.push([...seqs]));
    await consume(async (seqs) => void taken.push([...seqs]), other);
    queue.notify([11, 12, 13]);
    await expect.poll(() => taken, PATIENCE).toEqual([[11, 12, 13]]);
    await expect
      .poll(() => queue.bull.getJobCounts("active", "waiting", "completed"), PATIENCE)
      .toEqual({
        active: 0,
        waiting: 0,
        completed: 1,
      });
    expect(taken).toEqual([[11, 12, 13]]);
  });

  it("combines single notifications into one job, of at most 1,000 positions", async () => {
    for (let seq = 1; seq <= 2_250; seq += 1) queue.notify([seq]);
    await vi.waitFor(async () => expect(await queue.bull.getWaitingCount()).toBe(3), PATIENCE);
    const jobs = await queue.bull.getWaiting();
    const sizes = jobs.map((job) => job.data.seqs.length).sort((a, b) => b - a);
    expect(sizes).toEqual([1_000, 1_000, 250]);
    expect(new Set(jobs.flatMap((job) => job.data.seqs)).size).toBe(2_250);
  });

  it("retries a failed job after growing waits", async () => {
    const timesMs: number[] = [];
    await consume(async () => {
      timesMs.push(performance.now());
      if (timesMs.length < 4) throw new Error("not now");
    });
    queue.notify([1]);
    await vi.waitFor(() => expect(timesMs).toHaveLength(4), PATIENCE);
    const [first = 0, second = 0, third = 0, fourth = 0] = timesMs;
    // 100, 200 and 400 ms, less at most half of it.
    expect(second - first).toBeGreaterThanOrEqual(50);
    expect(third - second).toBeGreaterThanOrEqual(100);
    expect(fourth - third).toBeGreaterThanOrEqual(200);
    await vi.waitFor(async () => expect(await queue.bull.getCompletedCount()).toBe(1), PATIENCE);
  });

  it("does not retry an error with retry never", async () => {
    let calls = 0;
    await consume(async () => {
      calls += 1;
      throw new ConfigurationError("The source is not configured.");
    });
    queue.notify([1]);
    await vi.waitFor(
      async () => expect(await failedReasons()).toEqual(["The source is not configured."]),
      PATIENCE,
    );
    expect(calls).toBe(1);
    // The log line comes after the queue's update.
    await expect.poll(() => lines.join(""), PATIENCE).toContain("a job failed for good");
  });

  it("stores only type and code of a foreign error", async () => {
    await consume(async () => {
      throw Object.assign(new RangeError('invalid phone "+49 30 1234567" of Ada'), { code: "22P02" });
    });
    queue.notify([1]);
    await vi.waitFor(async () => expect(await queue.bull.getDelayedCount()).toBe(1), PATIENCE);
    const [job] = await queue.bull.getDelayed();
    expect(job?.failedReason).toBe("RangeError 22P02");
    expect(JSON.stringify(job?.stacktrace)).not.toMatch(/1234567|Ada/);
    expect(lines.join("")).not.toContain("1234567");
  });

  it("rejects a malformed job with a log line, and continues with the next", async () => {
    const taken: number[][] = [];
    await queue.bull.add("apply", { seqs: ["1"] } as never);
    await queue.bull.add("apply", { phone: "+49 30 1234567" } as never);
    await queue.bull.add("apply", { seqs: [] });
    await consume(async (seqs) => void taken.push([...seqs]));
    queue.notify([7]);
    await expect.poll(() => taken, PATIENCE).toEqual([[7]]);
    await vi.waitFor(
      async () => expect(await failedReasons()).toEqual(Array(3).fill("not a list of inbox positions")),
      PATIENCE,
    );
    expect(lines.join("")).toContain("a job of an unknown shape was refused");
    expect(lines.join("")).not.toContain("1234567");
  });

  it("reruns a job whose workers were killed three times in a row", async () => {
    for (let kills = 1; kills <= 3; kills += 1) {
      const child = spawn(
        process.execPath,
        ["--import", "tsx", DOOMED_WORKER, servers.database.url, ...redisUrls()],
        {
          stdio: ["ignore", "pipe", "inherit"],
        },
      );
      onTestFinished(() => void child.kill("SIGKILL"));
      const said = createInterface(child.stdout);
      if (kills === 1) queue.notify([21, 22]);
      for await (const line of said) if (line === "took 21,22") break;
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    const taken: number[][] = [];
    await consume(async (seqs) => void taken.push([...seqs]));
    await expect.poll(() => taken, PATIENCE).toEqual([[21, 22]]);
    await vi.waitFor(async () => expect(await queue.bull.getCompletedCount()).toBe(1), PATIENCE);
  });

  it("keeps notifying after the queue was obliterated", async () => {
    const taken: number[][] = [];
    queue.notify([1]);
    await vi.waitFor(async () => expect(await queue.bull.getWaitingCount()).toBe(1), PATIENCE);
    await consume(async (seqs) => void taken.push([...seqs]));
    await expect.poll(() => taken, PATIENCE).toEqual([[1]]);
    await queue.bull.obliterate({ force: true });
    queue.notify([2]);
    // Obliterating pauses the queue first; then it removes the pause, too.
    await expect.poll(() => taken, PATIENCE).toEqual([[1], [2]]);
  });

  it("lets a running job end before its consumer closes, and takes no more", async () => {
    const ended: number[] = [];
    let finish: () => void = () => undefined;
    const started = new Promise<void>((resolve) => {
      void queue
        .consume(async (seqs) => {
          resolve();
          await new Promise<void>((done) => (finish = done));
          ended.push(...seqs);
        })
        .then((consumer) => {
          closeConsumer = () => consumer.close();
        });
    });
    let closeConsumer: () => Promise<void> = () => Promise.resolve();
    queue.notify([1]);
    await started;
    const closing = closeConsumer();
    finish();
    await closing;
    expect(ended).toEqual([1]);
    queue.notify([2]);
    await vi.waitFor(async () => expect(await queue.bull.getWaitingCount()).toBe(1), PATIENCE);
    expect(ended).toEqual([1]);
  });

  it("works and closes without a log line", async () => {
    const words: string[] = [];
    const logger = logInto((line) => words.push(line), "debug");
    const other = await open(logger);
    let taken = 0;
    const consumer = await other.consume(async () => void (taken += 1));
    other.notify([1]);
    await expect.poll(() => taken, PATIENCE).toBe(1);
    await consumer.close();
    await other.close();
    expect(words).toEqual([]);
  });

  it("ignores notifications after it was closed", async () => {
    const other = await open();
    await other.close();
    other.notify([1]);
    expect(await queue.bull.getWaitingCount()).toBe(0);
  });
});

describe("a queue in Postgres that cannot be used", () => {
  it("is a configuration error when its tables are missing", async () => {
    const bare = await makeTestDatabase();
    onTestFinished(() => bare.drop());
    await bare.pool.query("drop schema bullmq cascade");
    const opening = makeApplyQueue({ databaseUrl: bare.url, redisUrls: [], logger: silentLogger });
    await expect(opening).rejects.toThrow(ConfigurationError);
  });

  it("is unavailable when Postgres is unreachable", async () => {
    const databaseUrl = "postgres://nobody@127.0.0.1:1/none";
    const opening = makeApplyQueue({ databaseUrl, redisUrls: [], logger: silentLogger });
    await expect(opening).rejects.toThrow(UnavailableError);
  });
});
