import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { ConfigurationError, UnavailableError } from "../../../src/domain/errors.ts";
import { makeApplyQueue, type ApplyQueue, type ApplyQueueDeps } from "../../../src/queue/applyQueue.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import { PATIENCE } from "../../support/servers/queue.ts";
import {
  QUEUE_BACKENDS,
  openQueueServers,
  SHORT_BACKOFF,
  SHORT_LIVED_WORKER,
} from "../../support/servers/redis.ts";
import { logInto } from "../../support/run/logInto.ts";

const HASTE = { jobOptions: SHORT_BACKOFF, workerOptions: SHORT_LIVED_WORKER };

const servers = await openQueueServers();

describe.each(QUEUE_BACKENDS)("the queue on $backend", ({ backend, runs }) => {
  const redisUrls = () => servers.redisUrls(backend);
  const lines: string[] = [];
  let queue: ApplyQueue;

  async function open(overrides: ApplyQueueDeps["overrides"] = HASTE): Promise<ApplyQueue> {
    const place = { mirrorId: "test", databaseUrl: servers.database.url, redisUrls: redisUrls() };
    const logger = logInto((line) => lines.push(line));
    const opened = await makeApplyQueue({ ...place, logger, overrides });
    await opened.bull.waitUntilReady();
    return opened;
  }
  async function consume(apply: (seqs: readonly number[]) => Promise<void>, from = queue): Promise<void> {
    const consumer = await from.consume(apply);
    onTestFinished(() => consumer.close());
  }
  /** What a worker takes, job by job. */
  async function take(taken: number[][] = [], from = queue): Promise<readonly number[][]> {
    await consume(async (seqs) => void taken.push([...seqs]), from);
    return taken;
  }

  beforeEach(async ({ skip }) => {
    if (!runs) skip("no redis-server");
    lines.length = 0;
    queue = await open();
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
    await take(taken);
    await take(taken, other);
    queue.notify([11, 12, 13]);
    await expect.poll(() => taken, PATIENCE).toEqual([[11, 12, 13]]);
    const counts = () => queue.bull.getJobCounts("active", "waiting", "completed");
    await expect.poll(counts, PATIENCE).toEqual({ active: 0, waiting: 0, completed: 1 });
    expect(taken).toEqual([[11, 12, 13]]);
  });

  it.each([
    [new ConfigurationError("The source is not configured."), "failed", "The source is not configured."],
    [
      Object.assign(new RangeError('invalid phone "+49 30 1234567" of Ada'), { code: "22P02" }),
      "delayed",
      "RangeError 22P02",
    ],
  ] as const)("after %s a job is %s, and says only %s", async (error, state, reason) => {
    let calls = 0;
    // So that nothing runs it a second time meanwhile.
    const patient = await open({ jobOptions: { backoff: 60_000 } });
    onTestFinished(() => patient.close());
    await consume(() => {
      calls += 1;
      return Promise.reject(error);
    }, patient);
    patient.notify([1]);
    await expect.poll(() => queue.bull.getJobCountByTypes(state), PATIENCE).toBe(1);
    const [job] = await queue.bull.getJobs([state]);
    expect(job?.failedReason).toBe(reason);
    expect(calls).toBe(1);
    expect(JSON.stringify(job?.stacktrace)).not.toMatch(/1234567|Ada/);
    // The log line comes after the queue's update.
    const said = state === "failed" ? "a job failed for good" : "a job could not be applied";
    await expect.poll(() => lines.join(""), PATIENCE).toContain(said);
    expect(lines.join("").includes("for good")).toBe(state === "failed");
    expect(lines.join("")).not.toContain("1234567");
  });

  it("rejects a malformed job with a log line, and continues with the next", async () => {
    for (const content of [{ seqs: ["1"] }, { phone: "+49 30 1234567" }, { seqs: [] }])
      await queue.bull.add("apply", content as never);
    const taken = await take();
    queue.notify([7]);
    await expect.poll(() => taken, PATIENCE).toEqual([[7]]);
    const reasons = async () => (await queue.bull.getFailed()).map((job) => job.failedReason);
    await expect.poll(reasons, PATIENCE).toEqual(Array(3).fill("not a list of inbox positions"));
    expect(lines.join("")).toContain("a job of an unknown shape was refused");
    expect(lines.join("")).not.toContain("1234567");
  });

  it("reruns a job whose workers were lost twice in a row", async () => {
    for (let losses = 1; losses <= 2; losses += 1) {
      const lost = await queue.consume(
        (seqs) => new Promise(() => lines.push(`worker ${losses} took ${seqs.join(",")}`)),
      );
      if (losses === 1) queue.notify([21, 22]);
      await expect.poll(() => lines.join(""), PATIENCE).toContain(`worker ${losses} took 21,22`);
      // As when its process is killed: it neither ends the job nor keeps its lock.
      await lost.worker.close(true);
      onTestFinished(() => lost.close());
    }
    const taken = await take();
    await expect.poll(() => taken, PATIENCE).toEqual([[21, 22]]);
    await expect.poll(() => queue.bull.getCompletedCount(), PATIENCE).toBe(1);
  });

  it("keeps notifying after the queue was obliterated", async () => {
    queue.notify([1]);
    await expect.poll(() => queue.bull.getWaitingCount(), PATIENCE).toBe(1);
    const taken = await take();
    await expect.poll(() => taken, PATIENCE).toEqual([[1]]);
    await queue.bull.obliterate({ force: true });
    queue.notify([2]);
    // Obliterating pauses the queue first; then it removes the pause, too.
    await expect.poll(() => taken, PATIENCE).toEqual([[1], [2]]);
  });

  it("lets a running job end before its consumer closes, and takes no more", async () => {
    const taken: number[] = [];
    let finish: () => void = () => undefined;
    const consumer = await queue.consume(async (seqs) => {
      taken.push(...seqs);
      await new Promise<void>((done) => (finish = done));
    });
    queue.notify([1]);
    await expect.poll(() => taken, PATIENCE).toEqual([1]);
    const closing = consumer.close();
    finish();
    await closing;
    expect(await queue.bull.getCompletedCount()).toBe(1);
    queue.notify([2]);
    await expect.poll(() => queue.bull.getWaitingCount(), PATIENCE).toBe(1);
    expect(taken).toEqual([1]);
  });
});

describe("a queue in Postgres that cannot be used", () => {
  it("is a configuration error when its tables are missing, and unavailable while Postgres is", async () => {
    const opening = (databaseUrl: string) =>
      makeApplyQueue({ mirrorId: "test", databaseUrl, redisUrls: [], logger: silentLogger });
    const bare = await makeTestDatabase();
    onTestFinished(() => bare.drop());
    await bare.pool.query("drop schema bullmq cascade");
    await expect(opening(bare.url)).rejects.toThrow(ConfigurationError);
    await expect(opening("postgres://nobody@127.0.0.1:1/none")).rejects.toThrow(UnavailableError);
  });
});
