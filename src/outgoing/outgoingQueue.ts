import type { Job } from "bullmq";
import { z } from "zod";
import { beginFeedEpoch } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import { openBackend } from "../queue/backend.ts";
import type { QueueBackend, QueuePlace } from "../queue/backend.ts";
import { bullmq } from "../queue/packages.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { makeDeliver, RETRY_SECONDS, retryDelayMs } from "./outgoingDelivery.ts";
import type { OutgoingEndpoint } from "./outgoingDelivery.ts";
import {
  enqueueAgain,
  noteEnqueued,
  planDeliveries,
  readQueueStanding,
  readToEnqueue,
} from "./outgoingPlan.sql.ts";
import type { Wanted } from "./outgoingPlan.sql.ts";

/*
 * Webhooks to one of the business's own endpoints, in a queue of BullMQ of its own: attempts, backoff, rate, pause and
 * dead jobs are the queue's, and no endpoint waits for another. What is to be sent stands in Postgres: a transaction moves
 * the endpoint's place in the feed and makes a delivery of each change, the queue then gets one job per delivery, and the end of
 * a delivery is recorded before its job ends. So a queue that loses jobs, or all of them, gets them again, and an endpoint
 * may get a message twice, under the same id. Start at openOutgoing.
 */

/** What a job is about; nothing of the order. */
export interface OutgoingJob {
  readonly deliveryId: string;
}

const jobSchema = z.object({ deliveryId: z.string().regex(/^\d{1,18}$/) });

const PLAN_LIMIT = 500;
/** More than these wait in the feed instead of in the queue. */
const PENDING_MAX = 10_000;
const LOOK_MIN_MS = 100;
const LOOK_MAX_MS = 1_000;
const COMPARE_EVERY_MS = 10_000;
/** An endpoint has at most this many attempts under way, whatever the number of processes. @internal */
export const UNDER_WAY_MAX = 10;
/** Also without a limit of its own an endpoint gets no more messages than this in a second. */
const RATE_MAX = 1_000;
/** An endpoint with this many failures in a row gets nothing for a while: 5 s at first, then twice as long each time. */
const FAILURES_BEFORE_REST = 5;
const REST_MS = 5_000;
const REST_DOUBLINGS_MAX = 6;
const WEEK_SECONDS = 604_800;

const JOB_OPTIONS = {
  attempts: RETRY_SECONDS.length + 1,
  backoff: { type: "custom" },
  removeOnComplete: { count: 20 },
  removeOnFail: { age: WEEK_SECONDS, count: 1_000 },
} as const;

const WORKER_OPTIONS = {
  concurrency: UNDER_WAY_MAX,
  // An attempt takes up to 16 s.
  lockDuration: 60_000,
  stalledInterval: 30_000,
  // Every deployment that kills a worker counts as one stall.
  maxStalledCount: 1_000,
  runRetryDelay: 1_000,
} as const;

/** To Postgres, for each endpoint: one of the worker's listens. */
const CONNECTIONS = { queue: 1, worker: 2 };

/** Opens the queue of an endpoint. Throws as openBackend. */
export function openOutgoingQueue(
  place: QueuePlace,
  endpointId: string,
  logger: Logger,
): Promise<QueueBackend<OutgoingJob>> {
  const options = { defaultJobOptions: JOB_OPTIONS };
  return openBackend(place, { name: `outgoing-${endpointId}`, options, connections: CONNECTIONS, logger });
}

export interface OutgoingDeps {
  readonly pool: Pool;
  readonly backend: QueueBackend<OutgoingJob>;
  readonly endpoint: OutgoingEndpoint & Wanted;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests, which do not wait for the product's spans. */
  readonly retrySeconds?: readonly number[];
  readonly compareEveryMs?: number;
}

/** Turns the changes that one endpoint wants into deliveries, and sends them. Any number of processes may do so. */
export async function openOutgoing(deps: OutgoingDeps) {
  const { backend, clock, logger } = deps;
  const { queue } = backend;
  const rest = { isTaken: false };
  const feeder = makeFeeder(deps, rest);
  const { retrySeconds = RETRY_SECONDS, endpoint } = deps;
  const opened = await backend.openWorker(
    makeProcessor(deps, async (ms) => {
      rest.isTaken = true;
      await opened.worker.rateLimit(ms);
    }),
    {
      ...WORKER_OPTIONS,
      limiter: { max: endpoint.rate ?? RATE_MAX, duration: 1_000 },
      settings: {
        backoffStrategy: (attempts, _type, error) => {
          const askedMs = error instanceof DeliveryFailedError ? error.askedMs : 0;
          return retryDelayMs(attempts, { askedMs, chance: Math.random(), retrySeconds });
        },
      },
    },
  );
  let delayMs = LOOK_MIN_MS;
  const loop = makeLoop({
    async run(signal) {
      const moved = await feeder.feed(signal);
      delayMs = moved > 0 ? LOOK_MIN_MS : Math.min(delayMs * 2, LOOK_MAX_MS);
      return delayMs;
    },
    everyMs: LOOK_MAX_MS,
    onError(error) {
      logger.warn(
        { err: error },
        "outgoing webhooks could not be planned or enqueued and will be tried again",
      );
      // The database may return as a different one.
      feeder.prepareAgain();
    },
    clock,
  });
  loop.start();
  return {
    queue,
    /** Stops, after waiting some seconds for attempts under way; the rest is sent again. */
    async close() {
      await loop.stop();
      await opened.close();
      await backend.close();
    },
  };
}

/** Fills the queue from the feed. */
function makeFeeder(deps: OutgoingDeps, rest: { isTaken: boolean }) {
  const { pool, backend, endpoint, clock, compareEveryMs = COMPARE_EVERY_MS } = deps;
  const { queue } = backend;
  const { endpointId } = endpoint;
  const attempts = (deps.retrySeconds ?? RETRY_SECONDS).length + 1;
  let prepared = false;
  let comparedAtMs = Number.NEGATIVE_INFINITY;
  let isFull = false;

  async function enqueue(): Promise<number> {
    const deliveries = await readToEnqueue(pool, endpointId, PLAN_LIMIT);
    if (deliveries.length === 0 || !backend.isReachable()) return 0;
    // One by one: in Postgres, a bulk would create a sequence for its ids, which the worker's login may not.
    for (const deliveryId of deliveries) {
      // A job that exists is not added again.
      await queue.add("deliver", { deliveryId }, { jobId: `delivery-${deliveryId}`, attempts });
    }
    await noteEnqueued(pool, deliveries);
    return deliveries.length;
  }

  /** What Postgres says and what the queue has; another process, a person or a lost server may have changed either. */
  async function compare(): Promise<void> {
    const standing = await readQueueStanding(pool, endpointId);
    if (standing === undefined || !backend.isReachable()) return;
    isFull = standing.pending >= PENDING_MAX;
    await queue.setGlobalConcurrency(UNDER_WAY_MAX);
    if (standing.paused !== (await queue.isPaused()))
      await (standing.paused ? queue.pause() : queue.resume());
    if (rest.isTaken && standing.failuresInRow === 0) {
      // An attempt was accepted, or a person has messages sent again.
      await queue.removeRateLimitKey();
      rest.isTaken = false;
    }
    const held = await queue.getJobCountByTypes("wait", "active", "delayed", "prioritized");
    if (held < standing.enqueued) await enqueueAgain(pool, endpointId);
  }

  return {
    /** Returns the number of deliveries that were planned or enqueued. */
    async feed(signal: AbortSignal): Promise<number> {
      const nowMs = clock.monotonicMs();
      if (!prepared) {
        await beginFeedEpoch(pool);
        prepared = true;
        comparedAtMs = Number.NEGATIVE_INFINITY;
      }
      if (nowMs - comparedAtMs >= compareEveryMs) {
        await compare();
        comparedAtMs = nowMs;
      }
      const planned = isFull ? 0 : await planAll(deps, signal);
      return planned + (await enqueue());
    },
    prepareAgain: () => (prepared = false),
  };
}

async function planAll({ pool, endpoint }: OutgoingDeps, signal: AbortSignal): Promise<number> {
  let count = 0;
  while (!signal.aborted && count < PENDING_MAX) {
    const { read, planned } = await planDeliveries(pool, endpoint, PLAN_LIMIT);
    count += planned;
    if (read < PLAN_LIMIT) break;
  }
  return count;
}

/** Its message is what the queue shows of a failure: a status or the kind of an error. */
class DeliveryFailedError extends Error {
  override readonly name = "DeliveryFailedError";
  readonly askedMs: number;

  constructor(outcome: string, askedMs: number) {
    super(outcome);
    this.askedMs = askedMs;
  }
}

function makeProcessor(deps: OutgoingDeps, takeRest: (ms: number) => Promise<void>) {
  const deliver = makeDeliver(deps);
  return async (job: Job<OutgoingJob, void>, token?: string): Promise<void> => {
    const { data } = jobSchema.safeParse(job.data);
    if (data === undefined) throw new bullmq.UnrecoverableError("not a delivery");
    const number = job.attemptsMade + 1;
    const delivered = await deliver(data.deliveryId, { number, isLast: number >= (job.opts.attempts ?? 1) });
    if (delivered.kind === "obsolete") return;
    if (delivered.kind === "waits") {
      await job.moveToDelayed(Date.now() + delivered.delayMs, token);
      throw new bullmq.DelayedError();
    }
    const { outcome, result, story, askedMs, failuresInRow } = delivered;
    await job.log(`attempt ${number}: ${story}`);
    if (result === "delivered") return;
    if (failuresInRow >= FAILURES_BEFORE_REST) {
      const doublings = Math.min(failuresInRow - FAILURES_BEFORE_REST, REST_DOUBLINGS_MAX);
      await takeRest(REST_MS * 2 ** doublings);
    }
    if (result === "dead") throw new bullmq.UnrecoverableError(outcome);
    throw new DeliveryFailedError(outcome, askedMs);
  };
}
