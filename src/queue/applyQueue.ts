import { hostname } from "node:os";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { QueueOptions, WorkerOptions } from "bullmq";
import { z } from "zod";
import { OrderMirrorError } from "../domain/errors.ts";
import { withTimeout } from "../process/abort.ts";
import { systemClock as clock } from "../process/clock.ts";
import { describeError } from "../process/telemetry/errorFields.ts";
import { makeLogSampler } from "../process/telemetry/logSampler.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { openBackend, type JobProcessor } from "./backend.ts";
import type { QueuePlace } from "./queueServer.ts";
import { bullmq } from "./packages.ts";

// The queue of events to apply. After each commit of the inbox it gets one job with the positions of the commit, at once.
// The source of truth is the inbox: a job that cannot be sent or is lost is found there by the workers' overdue check, some
// seconds later, so nothing here is stored for later and nothing waits. Start at `makeApplyQueue`.

/** The name of the queue; with the prefix it forms the keys in Redis, `{order-mirror:MIRROR}:apply:…`. */
const APPLY_QUEUE = "apply";
/** The maximum number of inbox positions in one job; a full job is followed by the next immediately. */
const JOB_SEQS_MAX = 1_000;
const WAITING_SEQS_MAX = 10_000;
const SEND_DEADLINE_MS = 2_000;
/** Under load a job in Postgres for each commit costs a third of the throughput: what comes in this pause shares one. */
const PAUSE_IN_POSTGRES_MS = 10;
const LOG_INTERVAL_MS = 10_000;
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

/** Opens the queue. Throws as `openBackend`. */
export async function makeApplyQueue(deps: ApplyQueueDeps) {
  const { redisUrls, logger, overrides = {} } = deps;
  const backend = await openBackend<ApplyJob>(deps, {
    name: APPLY_QUEUE,
    logger,
    options: {
      defaultJobOptions: { ...JOB_OPTIONS, ...overrides.jobOptions },
      streams: { events: { maxLen: 1_000 } },
    },
  });
  const sender = makeSender({
    send: async (seqs) => void (await backend.queue.add(APPLY_QUEUE, { seqs })),
    isReachable: () => backend.isReachable(),
    pauseMs: redisUrls.length === 0 ? PAUSE_IN_POSTGRES_MS : 0,
    logger,
  });
  return {
    /**
     * Makes workers apply the events at these inbox positions. Never throws and never waits: what cannot be enqueued is logged
     * and forgotten, because the overdue check finds it.
     */
    notify: sender.notify,
    /**
     * Runs `apply` for every job, several concurrently. If `apply` rejects, the job is retried with growing waits, unless
     * the error is an OrderMirrorError that forbids it. Throws UnavailableError if the queue is in Postgres and Postgres
     * is unavailable; an unavailable Redis is waited for.
     */
    async consume(apply: ApplySeqs) {
      const options = { ...WORKER_OPTIONS, ...overrides.workerOptions };
      const opened = await backend.openWorker(makeProcessor(apply, logger), options);
      opened.worker.on("failed", (job, error) => {
        if (job?.finishedOn === undefined) return;
        const fields = { job_id: job.id, attempts: job.attemptsMade, err: error };
        logger.error(fields, "a job failed for good; the overdue check keeps trying its events");
      });
      return opened;
    },
    bull: backend.queue,
    check: backend.check,
    /** Ends within seconds, whatever the server does. Close the consumers first, separately. */
    async close(): Promise<void> {
      await sender.close();
      await backend.close();
    },
  };
}

/**
 * Sends one job at a time, about everything notified meanwhile: under load a job stands for several commits. So the queue
 * may be unavailable, frozen or full, and the only effect is a delay of some seconds.
 *
 * @internal
 */
export function makeSender(deps: {
  readonly send: (seqs: readonly number[]) => Promise<void>;
  readonly isReachable: () => boolean;
  /** After each job; the first is sent at once. */
  readonly pauseMs: number;
  readonly logger: Logger;
}) {
  const { send, isReachable, pauseMs, logger } = deps;
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  const waiting: number[] = [];
  let sending: Promise<void> | undefined;
  let closed = false;

  function forget(events: number, reason: string, error?: unknown): void {
    const suppressed = sample(reason);
    if (suppressed === undefined) return;
    const fields = { events, reason, suppressed, err: error };
    logger.warn(fields, "no job was enqueued for some events; the overdue check will find them");
  }

  async function sendAll(): Promise<void> {
    // The events of one commit are notified one by one, in one turn, and belong in one job.
    await nextTurn();
    while (waiting.length > 0) {
      if (isReachable()) await sendOne(waiting.splice(0, JOB_SEQS_MAX));
      else forget(waiting.splice(0).length, "the queue cannot be reached");
      if (pauseMs > 0) await clock.sleep(pauseMs);
    }
    sending = undefined;
  }

  async function sendOne(seqs: readonly number[]): Promise<void> {
    try {
      const outcome = await withTimeout(send(seqs), SEND_DEADLINE_MS);
      if (outcome === "late") forget(seqs.length, "the queue does not answer");
    } catch (error) {
      forget(seqs.length, "the queue refused the job", error);
    }
  }

  return {
    notify(this: void, seqs: readonly number[]): void {
      if (closed) return;
      if (waiting.length + seqs.length > WAITING_SEQS_MAX)
        return forget(seqs.length, "too many wait to be enqueued");
      for (const seq of seqs) waiting.push(seq);
      sending ??= sendAll();
    },
    async close(this: void): Promise<void> {
      closed = true;
      if (sending) await withTimeout(sending, SEND_DEADLINE_MS);
    },
  };
}

function makeProcessor(apply: ApplySeqs, logger: Logger): JobProcessor<ApplyJob> {
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

/** What the queue may store of an error: the dashboard shows it, so of foreign ones only type and code. */
function toJobError(error: unknown): Error {
  const { type, code, message } = describeError(error);
  const ours = error instanceof OrderMirrorError;
  const text = ours ? message : [type, code].filter(Boolean).join(" ");
  return ours && error.retry === "never" ? new bullmq.UnrecoverableError(text) : new Error(text);
}
