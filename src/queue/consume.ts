import type { Job, WorkerOptions } from "bullmq";
import { OrderMirrorError } from "../domain/errors.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { describeError } from "../runtime/telemetry/errorFields.ts";
import { makeLogSampler } from "../runtime/telemetry/logSampler.ts";
import type { LogSampler } from "../runtime/telemetry/logSampler.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { readApplyJob } from "./applyJob.ts";
import type { ApplyJob } from "./applyJob.ts";
import type { JobProcessor, QueueBackend } from "./backends/backend.ts";
import { bullmq } from "./backends/packages.ts";
import { unlessLate } from "../runtime/lifecycle/abort.ts";

const CLOSE_DEADLINE_MS = 3_000;
const LOG_INTERVAL_MS = 10_000;

const WORKER_OPTIONS = {
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

export interface Consumer {
  /** Takes no more jobs and waits for the running ones; after 3 s it ends without them, and they run again. */
  close(): Promise<void>;
}

export interface ConsumeDeps {
  readonly backend: QueueBackend<ApplyJob>;
  readonly apply: (seqs: readonly number[]) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests, whose workers die more often. */
  readonly workerOptions?: Omit<WorkerOptions, "connection"> | undefined;
}

/** Runs `apply` for every job. Throws UnavailableError if the queue's Postgres is unavailable. */
export async function startConsumer(deps: ConsumeDeps): Promise<Consumer> {
  const { backend, apply, clock, logger, workerOptions = {} } = deps;
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  const process = makeProcessor({ apply, logger, sample });
  const { worker, cut } = await backend.openWorker(process, { ...WORKER_OPTIONS, ...workerOptions });
  worker.on("failed", (job, error) => {
    if (job && isOver(job)) {
      const fields = { job_id: job.id, attempts: job.attemptsMade, err: error };
      logger.error(fields, "a job failed for good; the overdue check keeps trying its events");
    }
  });
  return {
    async close() {
      const outcome = await unlessLate(worker.close(), CLOSE_DEADLINE_MS);
      if (outcome === "late") logger.warn("the queue's worker did not end in time; its jobs will run again");
      await cut();
    },
  };
}

function makeProcessor(deps: {
  apply: (seqs: readonly number[]) => Promise<void>;
  logger: Logger;
  sample: LogSampler;
}): JobProcessor<ApplyJob> {
  const { apply, logger, sample } = deps;
  return async (job) => {
    const seqs = readApplyJob(job.data);
    if (!seqs) {
      logger.error({ job_id: job.id }, "a job of an unknown shape was refused");
      throw new bullmq.UnrecoverableError("not a list of inbox positions");
    }
    try {
      await apply(seqs);
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

/** What the queue may store of an error: the ops pages show it, so of foreign ones only type and code. */
function toJobError(error: unknown): Error {
  const { type, code, message } = describeError(error);
  const ours = error instanceof OrderMirrorError;
  const text = ours ? message : [type, code].filter(Boolean).join(" ");
  return ours && error.retry === "never" ? new bullmq.UnrecoverableError(text) : new Error(text);
}

function isOver(job: Job<ApplyJob, void>): boolean {
  return job.finishedOn !== undefined;
}
