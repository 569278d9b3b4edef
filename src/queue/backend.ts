import type { Processor, Queue, QueueOptions, Worker, WorkerOptions } from "bullmq";
import { withTimeout } from "../process/abort.ts";
import { systemClock as clock } from "../process/clock.ts";
import { describeError } from "../process/telemetry/errorFields.ts";
import { makeLogSampler } from "../process/telemetry/logSampler.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import type { bullmq } from "./packages.ts";
import { usePostgres } from "./postgresServer.ts";
import { useRedis } from "./redisServer.ts";

// A queue of BullMQ in Redis or in Postgres: the same one to all who use it. Start at `openBackend`.

const WORKER_CLOSE_DEADLINE_MS = 3_000;
const QUEUE_CLOSE_DEADLINE_MS = 2_000;
const CUT_DEADLINE_MS = 1_000;
const ERROR_LOG_INTERVAL_MS = 30_000;

/** What differs between the two places of a queue. Nothing uses what only BullMQ's Redis classes have. */
export interface QueueServer {
  readonly classes: Pick<typeof bullmq, "Queue" | "Worker">;
  /** Opens the connections of a queue, or of a worker. */
  readonly connect: (user: "queue" | "worker") => QueueConnection;
}

export interface QueueConnection {
  /** For BullMQ: the connection, and what it needs. */
  readonly options: Pick<QueueOptions, "connection" | "prefix" | "skipVersionCheck">;
  /** False if nothing could be delivered now; checked before every attempt, so that none has to time out. */
  readonly isReachable: () => boolean;
  /** Waits until it can be used; only where a server that is away is an error at the start. */
  readonly begin?: (wait: () => Promise<unknown>) => Promise<void>;
  /** The problems of the server. Rejects, some seconds later, if it does not answer. */
  readonly check: () => Promise<readonly QueueProblem[]>;
  /** Breaks the connections. */
  readonly cut: () => Promise<void>;
}

export interface QueueProblem {
  readonly problem: string;
  readonly fix: string;
}

/** Where the queues are, as the configuration says. */
export interface QueuePlace {
  readonly databaseUrl: string;
  /** Empty: the queue is in Postgres. One: a Redis. Several: the nodes of a Redis cluster. */
  readonly redisUrls: readonly string[];
}

export type JobProcessor<Content> = Processor<Content, void>;
export type QueueBackend<Content> = Awaited<ReturnType<typeof openBackend<Content>>>;

/**
 * Opens the queue of this name. Throws UnavailableError or ConfigurationError if it is in Postgres and Postgres is
 * unavailable or not migrated. An unavailable Redis is not an error.
 */
export async function openBackend<Content>(
  { databaseUrl, redisUrls }: QueuePlace,
  deps: {
    readonly name: string;
    /** To Postgres, if the queue is there: of the queue, and of each worker, one of which listens. */
    readonly connections?: { readonly queue: number; readonly worker: number };
    readonly options: Omit<QueueOptions, "connection">;
    readonly logger: Logger;
  },
) {
  const { name, logger } = deps;
  // Of every connection, even transient errors: BullMQ and ioredis would print them otherwise.
  const onError = makeQueueErrorLog(logger);
  const server =
    redisUrls.length > 0 ? useRedis(redisUrls, onError) : usePostgres(databaseUrl, deps.connections);
  const { options, begin, cut, isReachable, check } = server.connect("queue");
  const queue: Queue<Content, void> = new server.classes.Queue(name, { ...deps.options, ...options });
  queue.on("error", onError);
  await begin?.(() => queue.waitUntilReady());
  return {
    queue,
    isReachable,
    check,
    /** Runs `process` for every job, on connections of its own. Throws as openBackend. */
    async openWorker(process: JobProcessor<Content>, workerOptions: Omit<WorkerOptions, "connection">) {
      const own = server.connect("worker");
      const worker: Worker<Content, void> = new server.classes.Worker(name, process, {
        ...workerOptions,
        ...own.options,
        autorun: false,
      });
      worker.on("error", onError);
      await own.begin?.(() => worker.waitUntilReady());
      void worker.run().catch(onError);
      return {
        worker,
        /** Takes no more jobs and waits for the running ones; after 3 s it ends without them, and they run again. */
        async close(): Promise<void> {
          const outcome = await withTimeout(worker.close(), WORKER_CLOSE_DEADLINE_MS);
          if (outcome === "late") {
            logger.warn("the queue's worker did not end in time; its jobs will run again");
            // The connection on which it waits for jobs would reconnect for ever.
            await withTimeout(worker.getBackend().disconnectBlocking(false), CUT_DEADLINE_MS);
          }
          await own.cut();
        },
      };
    },
    /** Ends within seconds, whatever the server does. Close the workers first. */
    async close(): Promise<void> {
      await withTimeout(queue.close(), QUEUE_CLOSE_DEADLINE_MS);
      await cut();
    },
  };
}

/** While a server is down every connection attempt fails: one line per kind of error is enough. */
function makeQueueErrorLog(logger: Logger): (error: Error) => void {
  const sample = makeLogSampler({ clock, intervalMs: ERROR_LOG_INTERVAL_MS });
  return (error) => {
    const { type, code = "" } = describeError(error);
    const suppressed = sample(`${type} ${code}`);
    if (suppressed !== undefined) logger.warn({ err: error, suppressed }, "the queue had an error");
  };
}
