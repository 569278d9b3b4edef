import { hostname } from "node:os";
import type { Processor, Queue, QueueOptions, Worker, WorkerOptions } from "bullmq";
import { z } from "zod";
import { OrderMirrorError } from "../domain/errors.ts";
import { withTimeout } from "../process/abort.ts";
import { systemClock as clock } from "../process/clock.ts";
import { describeError } from "../process/telemetry/errorFields.ts";
import { makeLogSampler } from "../process/telemetry/logSampler.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { bullmq } from "./packages.ts";
import { usePostgres } from "./postgresServer.ts";
import type { QueuePlace } from "./queueServer.ts";
import { useRedis } from "./redisServer.ts";
import { makeSender } from "./sendJobs.ts";

// The queue of events to apply. After each commit of the inbox it gets one job with the positions of the commit, at
// once. The source of truth is the inbox: a job that cannot be sent or is lost is found there by the workers' overdue
// check, some seconds later, so nothing here is stored for later and nothing waits. Start at `makeApplyQueue`.

/** The name of the queue; with the prefix it forms the keys in Redis, `{order-mirror:MIRROR}:apply:…`. */
const APPLY_QUEUE = "apply";
/** In Postgres a job for each commit would cost a third of the throughput: what comes in this pause shares one. */
const PAUSE_IN_POSTGRES_MS = 10;
const LOG_INTERVAL_MS = 10_000;
const WORKER_CLOSE_DEADLINE_MS = 3_000;
const QUEUE_CLOSE_DEADLINE_MS = 2_000;
const CUT_DEADLINE_MS = 1_000;
const PAUSE_AFTER_ERROR_MS = 1_000;
const ERROR_LOG_INTERVAL_MS = 30_000;
const WEEK_SECONDS = 604_800;

const JOB_OPTIONS = {
  // One to two minutes with doubling waits; after that only the overdue check is left.
  attempts: 8,
  backoff: { type: "exponential", delay: 1_000, jitter: 0.5 },
  // Few: at the end of every job in Postgres, BullMQ reads all completed ones that it keeps.
  removeOnComplete: { count: 20 },
  removeOnFail: { age: WEEK_SECONDS, count: 5_000 },
} as const satisfies QueueOptions["defaultJobOptions"];

const WORKER_OPTIONS = {
  // By which the dashboard knows what each worker does.
  name: `${hostname()}:${process.pid}`,
  // Concurrent jobs are applied together, in few statements: see apply/groupApply.
  concurrency: 32,
  // A dead worker is noticed after one or two of these intervals; a job takes milliseconds.
  lockDuration: 10_000,
  stalledInterval: 10_000,
  // Every deployment that kills a worker counts as one stall, regardless of `attempts`: with the default of 1, two such
  // deployments would fail a healthy job.
  maxStalledCount: 25,
  // Also the wait after a refused connection; the default is 15 s.
  runRetryDelay: 1_000,
} as const satisfies Omit<WorkerOptions, "connection">;

/** The content of a job: the positions of events, nothing of the events themselves. */
const applyJobSchema = z.object({ seqs: z.array(z.int().positive()).min(1).max(10_000).readonly() });
type ApplyJob = z.infer<typeof applyJobSchema>;
type ApplySeqs = (seqs: readonly number[]) => Promise<void>;

export type ApplyQueue = Awaited<ReturnType<typeof makeApplyQueue>>;

export interface ApplyQueueDeps extends QueuePlace {
  readonly logger: Logger;
  /** For tests, to shorten the product's intervals. */
  readonly overrides?: {
    readonly jobOptions?: QueueOptions["defaultJobOptions"];
    readonly workerOptions?: Omit<WorkerOptions, "connection">;
  };
}

/**
 * Opens the queue, in Redis or in Postgres, the same to who uses it. Throws UnavailableError or ConfigurationError if
 * it is in Postgres and Postgres is unavailable or not migrated. An unavailable Redis is not an error.
 */
export async function makeApplyQueue(deps: ApplyQueueDeps) {
  const { redisUrls, databaseUrl, logger, overrides = {} } = deps;
  // Of every connection, even transient errors: BullMQ and ioredis would print them otherwise.
  const onError = makeErrorLog(logger);
  const server = redisUrls.length > 0 ? useRedis(deps, onError) : usePostgres(databaseUrl);
  const { options, begin, cut, isReachable, check } = server.connect("queue");
  const queue: Queue<ApplyJob, void> = new server.classes.Queue(APPLY_QUEUE, {
    defaultJobOptions: { ...JOB_OPTIONS, ...overrides.jobOptions },
    streams: { events: { maxLen: 1_000 } },
    ...options,
  });
  queue.on("error", onError);
  await begin?.(() => queue.waitUntilReady());
  const sender = makeSender({
    send: async (seqs) => void (await queue.add(APPLY_QUEUE, { seqs })),
    isReachable,
    pauseMs: redisUrls.length === 0 ? PAUSE_IN_POSTGRES_MS : 0,
    logger,
  });
  return {
    /**
     * Makes workers apply the events at these inbox positions. Never throws and never waits: what cannot be enqueued is
     * logged and forgotten, because the overdue check finds it.
     */
    notify: sender.notify,
    /**
     * Runs `apply` for every job, several concurrently, on connections of its own. If `apply` rejects, the job is
     * retried with growing waits, unless the error is an OrderMirrorError that forbids it. Throws UnavailableError if
     * the queue is in Postgres and Postgres is unavailable; an unavailable Redis is waited for.
     */
    async consume(apply: ApplySeqs) {
      const own = server.connect("worker");
      const workerOptions = { ...WORKER_OPTIONS, ...overrides.workerOptions, ...own.options, autorun: false };
      const worker: Worker<ApplyJob, void> = new server.classes.Worker(
        APPLY_QUEUE,
        makeProcessor(apply, logger),
        workerOptions,
      );
      watchWorker(worker, onError, logger);
      await own.begin?.(() => worker.waitUntilReady());
      void worker.run().catch(onError);
      return {
        worker,
        /** Takes no more jobs and waits for the running ones; after 3 s it ends without them, and they run again. */
        async close(): Promise<void> {
          await closeWorker(worker, logger);
          await own.cut();
        },
      };
    },
    bull: queue,
    check,
    /** Ends within seconds, whatever the server does. Close the consumers first, separately. */
    async close(): Promise<void> {
      await sender.close();
      await withTimeout(queue.close(), QUEUE_CLOSE_DEADLINE_MS);
      await cut();
    },
  };
}

function watchWorker(worker: Worker<ApplyJob, void>, onError: (error: Error) => void, logger: Logger): void {
  const rest = makeRest(worker);
  worker.on("error", (error) => {
    onError(error);
    void rest();
  });
  worker.on("failed", (job, error) => {
    if (job?.finishedOn === undefined) return;
    const fields = { job_id: job.id, attempts: job.attemptsMade, err: error };
    logger.error(fields, "a job failed for good; the overdue check keeps trying its events");
  });
}

async function closeWorker(worker: Worker<ApplyJob, void>, logger: Logger): Promise<void> {
  const outcome = await withTimeout(worker.close(), WORKER_CLOSE_DEADLINE_MS);
  if (outcome !== "late") return;
  logger.warn("the queue's worker did not end in time; its jobs will run again");
  // The connection on which it waits for jobs would reconnect indefinitely.
  await withTimeout(worker.getBackend().disconnectBlocking(false), CUT_DEADLINE_MS);
}

/**
 * Makes what pauses a worker for a second, to be called after each of its errors: BullMQ asks again at once, so a
 * server that refuses, such as a full or read-only one, would be asked as fast as it answers, and an error that BullMQ
 * has kept would never give anything else in the process its turn.
 */
function makeRest(worker: Worker): () => Promise<void> {
  let resting = false;
  return async () => {
    if (resting) return;
    resting = true;
    await worker.pause(true);
    await clock.sleep(PAUSE_AFTER_ERROR_MS, undefined, false);
    resting = false;
    if (worker.closing === undefined) await worker.resume();
  };
}

/** While a server is down every connection attempt fails: one line per kind of error is enough. */
function makeErrorLog(logger: Logger): (error: Error) => void {
  const sample = makeLogSampler({ clock, intervalMs: ERROR_LOG_INTERVAL_MS });
  return (error) => {
    const { type, code = "" } = describeError(error);
    const suppressed = sample(`${type} ${code}`);
    if (suppressed !== undefined) logger.warn({ err: error, suppressed }, "the queue had an error");
  };
}

function makeProcessor(apply: ApplySeqs, logger: Logger): Processor<ApplyJob, void> {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  return async (job) => {
    const { data } = applyJobSchema.safeParse(job.data);
    if (!data) {
      logger.error({ job_id: job.id }, "a job of an unknown shape was refused");
      throw new bullmq.UnrecoverableError("not a list of inbox positions");
    }
    try {
      await apply(data.seqs);
    } catch (error) {
      const suppressed = sample("apply");
      if (suppressed !== undefined) {
        const fields = { job_id: job.id, attempt: job.attemptsMade + 1, suppressed, err: error };
        logger.warn(fields, "a job could not be applied");
      }
      throw toJobError(error);
    }
  };
}

/** Makes the error that the queue may store: the dashboard shows it, so of foreign ones only type and code. */
function toJobError(error: unknown): Error {
  const { type, code, message } = describeError(error);
  const ours = error instanceof OrderMirrorError;
  const text = ours ? message : [type, code].filter(Boolean).join(" ");
  return ours && error.retry === "never" ? new bullmq.UnrecoverableError(text) : new Error(text);
}
