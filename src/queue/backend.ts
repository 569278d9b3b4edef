import type { Processor, Queue, QueueOptions, Worker, WorkerOptions } from "bullmq";
import { withTimeout } from "../process/abort.ts";
import { systemClock as clock } from "../process/clock.ts";
import { describeError } from "../process/telemetry/errorFields.ts";
import { makeLogSampler } from "../process/telemetry/logSampler.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { usePostgres } from "./postgresServer.ts";
import type { QueuePlace } from "./queueServer.ts";
import { useRedis } from "./redisServer.ts";

// The queue of BullMQ in Redis or in Postgres, the same to who uses it. Start at `openBackend`.

const WORKER_CLOSE_DEADLINE_MS = 3_000;
const QUEUE_CLOSE_DEADLINE_MS = 2_000;
const CUT_DEADLINE_MS = 1_000;
const PAUSE_AFTER_ERROR_MS = 1_000;
const ERROR_LOG_INTERVAL_MS = 30_000;

export type JobProcessor<Content> = Processor<Content, void>;

/**
 * Opens the queue of this name. Throws UnavailableError or ConfigurationError if it is in Postgres and Postgres is
 * unavailable or not migrated. An unavailable Redis is not an error.
 */
export async function openBackend<Content>(
  place: QueuePlace,
  deps: {
    readonly name: string;
    readonly options: Omit<QueueOptions, "connection">;
    readonly logger: Logger;
  },
) {
  const { name, logger } = deps;
  // Of every connection, even transient errors: BullMQ and ioredis would print them otherwise.
  const onError = makeQueueErrorLog(logger);
  const server = place.redisUrls.length > 0 ? useRedis(place, onError) : usePostgres(place.databaseUrl);
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
      const rest = makeRest(worker);
      worker.on("error", (error) => {
        onError(error);
        void rest();
      });
      await own.begin?.(() => worker.waitUntilReady());
      void worker.run().catch(onError);
      return {
        worker,
        /** Takes no more jobs and waits for the running ones; after 3 s it ends without them, and they run again. */
        async close(): Promise<void> {
          const outcome = await withTimeout(worker.close(), WORKER_CLOSE_DEADLINE_MS);
          if (outcome === "late") {
            logger.warn("the queue's worker did not end in time; its jobs will run again");
            // The connection on which it waits for jobs would reconnect indefinitely.
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

/**
 * Makes what pauses a worker for a second, to be called after each of its errors: BullMQ asks again at once, so a server that
 * refuses, such as a full or read-only one, would be asked as fast as it answers, and an error that BullMQ has kept would
 * never give anything else in the process its turn.
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
function makeQueueErrorLog(logger: Logger): (error: Error) => void {
  const sample = makeLogSampler({ clock, intervalMs: ERROR_LOG_INTERVAL_MS });
  return (error) => {
    const { type, code = "" } = describeError(error);
    const suppressed = sample(`${type} ${code}`);
    if (suppressed !== undefined) logger.warn({ err: error, suppressed }, "the queue had an error");
  };
}
