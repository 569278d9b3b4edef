import type { QueueOptions, WorkerOptions } from "bullmq";
import { systemClock as clock } from "../runtime/lifecycle/clock.ts";
import { describeError } from "../runtime/telemetry/errorFields.ts";
import { makeLogSampler } from "../runtime/telemetry/logSampler.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import type { Tracing } from "../runtime/telemetry/tracing.ts";
import { APPLY_QUEUE, JOB_SEQS_MAX } from "./applyJob.ts";
import type { ApplyJob } from "./applyJob.ts";
import type { OnQueueError, QueueBackend } from "./backends/backend.ts";
import { startConsumer } from "./consume.ts";
import { startHintConsumer } from "./hints/consumeHints.ts";
import { unlessLate } from "../runtime/lifecycle/abort.ts";
import { logForgotten, makeNotifier } from "./notifier.ts";
import type { NotifierOptions } from "./notifier.ts";
import { HINT_SEQS_MAX } from "./hints/hints.ts";
import type { Hint } from "./hints/hints.ts";
import { openPostgresBackend } from "./backends/postgresBackend.ts";
import { openRedisBackend } from "./backends/redisBackend.ts";
import { loadJobTracing } from "./traceJobs.ts";

const CLOSE_DEADLINE_MS = 2_000;
const ERROR_LOG_INTERVAL_MS = 30_000;
/** Before and between jobs: by then a hint has had the events applied, and one job stands for many. */
const JOB_PAUSE_MS = 100;
/** Between two hints, in milliseconds: the minimum, the maximum (one per event), and the maximum under overload. */
const HINT_PAUSE_MS = { min: 1, busy: 5, full: 20 } as const;
const HOUR_SECONDS = 3_600;
const WEEK_SECONDS = 7 * 24 * HOUR_SECONDS;

const QUEUE_OPTIONS = {
  defaultJobOptions: {
    // One to two minutes with doubling waits; after that only the overdue check is left.
    attempts: 8,
    backoff: { type: "exponential", delay: 1_000, jitter: 0.5 },
    removeOnComplete: { age: HOUR_SECONDS, count: 1_000 },
    removeOnFail: { age: WEEK_SECONDS, count: 5_000 },
  },
  streams: { events: { maxLen: 1_000 } },
} as const satisfies Omit<QueueOptions, "connection">;

/** At the end of every job in Postgres, BullMQ reads all completed jobs that it keeps. */
const COMPLETED_IN_POSTGRES = { count: 20 };

export type ApplyQueue = Awaited<ReturnType<typeof makeApplyQueue>>;

export interface ApplyQueueDeps {
  readonly databaseUrl: string;
  /** Empty: the queue is in Postgres. One: a Redis. Several: the nodes of a Redis cluster. */
  readonly redisUrls: readonly string[];
  readonly logger: Logger;
  /** Makes jobs continue the trace of the request that caused them. */
  readonly tracing?: Tracing | undefined;
  /** For tests, to shorten the product's intervals. */
  readonly overrides?: {
    readonly backoffMs?: number;
    readonly workerOptions?: Omit<WorkerOptions, "connection">;
  };
}

/**
 * The queue that notifies the workers. The source of truth is the inbox.
 *
 * Throws UnavailableError or ConfigurationError if the queue is in Postgres and Postgres is unavailable or not
 * migrated. An unavailable Redis is not an error.
 */
export async function makeApplyQueue(deps: ApplyQueueDeps) {
  const { logger, tracing, overrides = {} } = deps;
  const traced = tracing === undefined ? {} : { telemetry: await loadJobTracing() };
  const backend = await openBackend(deps, traced);
  const { queue } = backend;
  const isReachable = () => backend.isReachable();
  const notifiers = [
    notifyByHint(backend, tracing),
    notifyByJob(backend, logForgotten({ clock, logger })),
  ].map((options) => makeNotifier({ ...options, isReachable, clock, tracing }));
  return {
    /**
     * Makes workers apply the events at these inbox positions: sends a hint immediately, and enqueues a job a little
     * later. Never throws and never waits; what cannot be enqueued is logged and forgotten, because the overdue check
     * finds it.
     */
    notify: (seqs: readonly number[]) => {
      for (const notifier of notifiers) notifier.notify(seqs);
    },
    /** Runs `apply` for each hint. A failed one, or one that arrives under overload, is left to its job. */
    listen: (apply: (hint: Hint) => Promise<void>) => startHintConsumer({ hints: backend.hints, apply }),
    /**
     * Runs `apply` for every job, several concurrently. If `apply` rejects, the job is retried with growing waits, unless
     * the error is an OrderMirrorError that forbids it. Throws UnavailableError if the queue is in Postgres and Postgres
     * is unavailable; an unavailable Redis is waited for.
     */
    consume: (apply: (seqs: readonly number[]) => Promise<void>) =>
      startConsumer({
        backend,
        apply,
        clock,
        logger,
        workerOptions: { ...traced, ...overrides.workerOptions },
      }),
    bull: queue,
    /** The problems of the queue's server; answers within 8 s, whatever the server does. */
    check: () => backend.check(),
    /** Ends within seconds, whatever the server does. Close the consumers first, separately. */
    async close(): Promise<void> {
      await Promise.all(notifiers.map((notifier) => notifier.close()));
      await unlessLate(queue.close(), CLOSE_DEADLINE_MS);
      await backend.cut();
    },
  };
}

/** Lost hints are not logged: a job follows. */
function notifyByHint({ hints }: QueueBackend<ApplyJob>, tracing: Tracing | undefined): NotifierOptions {
  const { min, busy, full } = HINT_PAUSE_MS;
  return {
    name: "hint",
    send: (seqs) => hints.send({ seqs, traceparent: tracing?.carry() }),
    seqsMax: HINT_SEQS_MAX,
    delayMs: 0,
    // The division by three makes the pause exceed 5 ms only above 3,000 events per second.
    pauseMs: (events) => Math.max(min, Math.min(events, busy), Math.min(events / 3, full)),
    onForgotten: () => undefined,
  };
}

function notifyByJob(
  { queue }: QueueBackend<ApplyJob>,
  onForgotten: NotifierOptions["onForgotten"],
): NotifierOptions {
  return {
    name: "enqueue",
    async send(seqs) {
      await queue.add(APPLY_QUEUE, { seqs });
    },
    seqsMax: JOB_SEQS_MAX,
    delayMs: JOB_PAUSE_MS,
    pauseMs: (events) => (events < JOB_SEQS_MAX ? JOB_PAUSE_MS : 0),
    onForgotten,
  };
}

async function openBackend(
  deps: ApplyQueueDeps,
  traced: Pick<QueueOptions, "telemetry">,
): Promise<QueueBackend<ApplyJob>> {
  const { databaseUrl, redisUrls, overrides, logger } = deps;
  const onError = makeQueueErrorLog(logger);
  const { backoff, ...jobOptions } = QUEUE_OPTIONS.defaultJobOptions;
  const delay = overrides?.backoffMs ?? backoff.delay;
  const inPostgres = redisUrls.length === 0;
  const removeOnComplete = inPostgres ? COMPLETED_IN_POSTGRES : jobOptions.removeOnComplete;
  const defaultJobOptions = { ...jobOptions, removeOnComplete, backoff: { ...backoff, delay } };
  const options = { ...QUEUE_OPTIONS, ...traced, defaultJobOptions };
  const common = { name: APPLY_QUEUE, options, onError, clock };
  return inPostgres
    ? openPostgresBackend({ databaseUrl, ...common })
    : openRedisBackend({ redisUrls, ...common });
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
