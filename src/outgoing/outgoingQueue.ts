import type { Queue, QueueOptions, WorkerOptions } from "bullmq";
import { z } from "zod";
import { systemClock } from "../runtime/lifecycle/clock.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { describeError } from "../runtime/telemetry/errorFields.ts";
import { makeLogSampler } from "../runtime/telemetry/logSampler.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import type { JobProcessor, QueueBackend } from "../queue/backends/backend.ts";
import type { Consumer } from "../queue/consume.ts";
import { unlessLate } from "../runtime/lifecycle/abort.ts";
import { openPostgresBackend } from "../queue/backends/postgresBackend.ts";
import { makeQueueErrorLog } from "../queue/backends/queueErrorLog.ts";
import { openRedisBackend } from "../queue/backends/redisBackend.ts";

/** Name of the queue of outgoing webhooks. */
const OUTGOING_QUEUE = "outgoing";

/** The content of a job: the delivery to process. Whether it is due is in the database. */
interface OutgoingJob {
  readonly deliveryId: string;
}

/** A delivery to have a job for; the same three make no second job while one is there. */
interface QueuedDelivery {
  readonly deliveryId: string;
  readonly round: number;
  readonly attempts: number;
}

export interface OutgoingQueue {
  /** Makes workers process these deliveries. Never throws; the overdue check finds what cannot be enqueued. */
  readonly enqueue: (deliveries: readonly QueuedDelivery[]) => Promise<void>;
  /** Runs `deliver` for every job, and again after the time that it returns. */
  readonly consume: (
    deliver: (deliveryId: string) => Promise<"over" | { readonly againAfterMs: number }>,
  ) => Promise<Consumer>;
  /** For bull-board. */
  readonly bull: Queue<OutgoingJob, void>;
  readonly close: () => Promise<void>;
}

const CLOSE_DEADLINE_MS = 2_000;
const CONSUMER_CLOSE_DEADLINE_MS = 5_000;
const LOG_INTERVAL_MS = 30_000;
const RETRY_AFTER_ERROR_MS = 5_000;

const QUEUE_OPTIONS = {
  defaultJobOptions: {
    // How often a delivery is tried is the database's to say; a job only has to last longer.
    attempts: 1_000,
    backoff: { type: "custom" },
    stackTraceLimit: 1,
    // A completed job would block another with its id, which the overdue check may need. The result of each delivery is
    // in the database.
    removeOnComplete: true,
    removeOnFail: true,
  },
  streams: { events: { maxLen: 1_000 } },
} as const satisfies Omit<QueueOptions, "connection">;

const WORKER_OPTIONS = {
  // Jobs wait for endpoints, so many may run concurrently; one that hangs occupies a slot for its timeout.
  concurrency: 10,
  lockDuration: 60_000,
  stalledInterval: 30_000,
  maxStalledCount: 25,
  runRetryDelay: 1_000,
  settings: { backoffStrategy: (_attempts, _type, error) => waitOf(error) },
} as const satisfies Omit<WorkerOptions, "connection">;

const jobSchema = z.object({ deliveryId: z.string().regex(/^\d{1,19}$/) });

/** Not an error but the way to have BullMQ run a job again later. */
class DueLaterError extends Error {
  override readonly name = "DueLaterError";
  readonly afterMs: number;

  constructor(afterMs: number) {
    super("due later");
    this.afterMs = afterMs;
  }
}

/**
 * The queue that triggers outgoing webhooks when they are due. Like the other queue it only notifies: it may lose
 * everything, and the overdue check compensates.
 *
 * Throws UnavailableError or ConfigurationError if the queue is in Postgres and Postgres is unavailable or not
 * migrated.
 */
export async function makeOutgoingQueue(deps: {
  readonly databaseUrl: string;
  readonly redisUrls: readonly string[];
  readonly logger: Logger;
  readonly clock?: Clock;
}): Promise<OutgoingQueue> {
  const { databaseUrl, redisUrls, logger, clock = systemClock } = deps;
  const onError = makeQueueErrorLog({ logger, clock });
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  const common = { name: OUTGOING_QUEUE, options: QUEUE_OPTIONS, onError, clock };
  const backend: QueueBackend<OutgoingJob> =
    redisUrls.length === 0
      ? await openPostgresBackend({ ...common, databaseUrl })
      : openRedisBackend({ ...common, redisUrls });
  const { queue } = backend;
  return {
    async enqueue(deliveries) {
      if (deliveries.length === 0 || !backend.isReachable()) return;
      try {
        await queue.addBulk(deliveries.map(toJob));
      } catch (error) {
        const suppressed = sample("enqueue");
        if (suppressed !== undefined)
          logger.warn(
            { err: error, suppressed },
            "outgoing webhooks could not be enqueued; the overdue check finds them",
          );
      }
    },
    consume: (deliver) => consume(backend, { deliver, logger }),
    bull: queue,
    async close() {
      await unlessLate(queue.close(), CLOSE_DEADLINE_MS);
      await backend.cut();
    },
  };
}

function toJob({ deliveryId, round, attempts }: QueuedDelivery) {
  return {
    name: OUTGOING_QUEUE,
    data: { deliveryId },
    opts: { jobId: `d${deliveryId}-${round}-${attempts}` },
  };
}

async function consume(
  backend: QueueBackend<OutgoingJob>,
  {
    deliver,
    logger,
  }: {
    deliver: (deliveryId: string) => Promise<"over" | { readonly againAfterMs: number }>;
    logger: Logger;
  },
): Promise<Consumer> {
  const process: JobProcessor<OutgoingJob> = async (job) => {
    const content = jobSchema.safeParse(job.data);
    // Put there by someone else; there is nothing to try again.
    if (!content.success) return;
    const result = await deliver(content.data.deliveryId).catch((error: unknown) => {
      // Stored errors are shown on pages: only type and code, never foreign messages.
      const { type, code = "" } = describeError(error);
      throw new Error(`${type} ${code}`.trim());
    });
    if (result !== "over") throw new DueLaterError(result.againAfterMs);
  };
  const { worker, cut } = await backend.openWorker(process, WORKER_OPTIONS);
  return {
    async close() {
      const outcome = await unlessLate(worker.close(), CONSUMER_CLOSE_DEADLINE_MS);
      if (outcome === "late")
        logger.warn("outgoing webhooks under way did not end in time; they are sent again");
      await cut();
    },
  };
}

function waitOf(error: Error | undefined): number {
  return error instanceof DueLaterError ? error.afterMs : RETRY_AFTER_ERROR_MS;
}
