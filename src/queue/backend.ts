import type { Processor, Queue, QueueOptions, Worker, WorkerOptions } from "bullmq";
import { withTimeout } from "../runtime/lifecycle/abort.ts";
import { systemClock as clock } from "../runtime/lifecycle/clock.ts";
import { describeError } from "../runtime/telemetry/errorFields.ts";
import { makeLogSampler } from "../runtime/telemetry/logSampler.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { openPostgresBackend } from "./postgresBackend.ts";
import { openRedisBackend } from "./redisBackend.ts";

// A queue of BullMQ in Redis or in Postgres: the same one to all who use it. Start at `openBackend`.

const WORKER_CLOSE_DEADLINE_MS = 3_000;
const QUEUE_CLOSE_DEADLINE_MS = 2_000;
const CUT_DEADLINE_MS = 1_000;
const ERROR_LOG_INTERVAL_MS = 30_000;

export type JobProcessor<Content> = Processor<Content, void>;

export interface QueueProblem {
  readonly problem: string;
  readonly fix: string;
}

/** Gets every error of a connection, even transient ones; BullMQ and ioredis would print them otherwise. */
export type OnQueueError = (error: Error) => void;

export interface OpenWorker<Content> {
  readonly worker: Worker<Content, void>;
  /** Breaks the worker's own connections. */
  readonly cut: () => void | Promise<void>;
}

/** What differs between the two places of a queue. Nothing uses what only BullMQ's Redis classes have. */
export interface QueueBackend<Content> {
  readonly queue: Queue<Content, void>;
  /** False if nothing could be delivered now; checked before every attempt, so that none has to time out. */
  isReachable(): boolean;
  openWorker(
    process: JobProcessor<Content>,
    options: Omit<WorkerOptions, "connection">,
  ): Promise<OpenWorker<Content>>;
  check(): Promise<readonly QueueProblem[]>;
  /** Breaks the queue's own connections; the workers have their own. */
  readonly cut: () => Promise<void>;
}

export interface BackendDeps {
  readonly name: string;
  /** To Postgres, if the queue is there: of the queue, and of each worker, one of which listens. */
  readonly connections?: { readonly queue: number; readonly worker: number };
  readonly options: Omit<QueueOptions, "connection">;
  readonly onError: OnQueueError;
}

/** Where the queues are, as the configuration says. */
export interface QueuePlace {
  readonly databaseUrl: string;
  /** Empty: the queue is in Postgres. One: a Redis. Several: the nodes of a Redis cluster. */
  readonly redisUrls: readonly string[];
}

/**
 * Opens the queue of this name. Throws UnavailableError or ConfigurationError if it is in Postgres and Postgres is
 * unavailable or not migrated. An unavailable Redis is not an error.
 */
export async function openBackend<Content>(
  place: QueuePlace,
  { logger, ...deps }: Omit<BackendDeps, "onError"> & { readonly logger: Logger },
): Promise<QueueBackend<Content>> {
  const common = { ...deps, onError: makeQueueErrorLog(logger) };
  const { databaseUrl, redisUrls } = place;
  if (redisUrls.length > 0) return openRedisBackend({ redisUrls, ...common });
  return openPostgresBackend({ databaseUrl, ...common });
}

/** Takes no more jobs and waits for the running ones; after 3 s it ends without them, and they run again. */
export async function endWorker<Content>(
  { worker, cut }: OpenWorker<Content>,
  logger: Logger,
): Promise<void> {
  const outcome = await withTimeout(worker.close(), WORKER_CLOSE_DEADLINE_MS);
  if (outcome === "late") {
    logger.warn("the queue's worker did not end in time; its jobs will run again");
    // The connection on which it waits for jobs would reconnect for ever.
    await withTimeout(worker.getBackend().disconnectBlocking(false), CUT_DEADLINE_MS);
  }
  await cut();
}

/** Ends a queue within seconds, whatever its server does. Its workers end separately, before it. */
export async function endQueue({ queue, cut }: Pick<QueueBackend<unknown>, "queue" | "cut">): Promise<void> {
  await withTimeout(queue.close(), QUEUE_CLOSE_DEADLINE_MS);
  await cut();
}

/** While a server is down every connection attempt fails: one line per kind of error is enough. */
function makeQueueErrorLog(logger: Logger): OnQueueError {
  const sample = makeLogSampler({ clock, intervalMs: ERROR_LOG_INTERVAL_MS });
  return (error) => {
    const { type, code = "" } = describeError(error);
    const suppressed = sample(`${type} ${code}`);
    if (suppressed !== undefined) logger.warn({ err: error, suppressed }, "the queue had an error");
  };
}
