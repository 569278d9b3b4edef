import type { Job } from "bullmq";
import { beginFeedEpoch } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import { openBackend, type QueueBackend, type QueuePlace } from "../queue/backend.ts";
import { bullmq } from "../queue/packages.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { makeDeliver, RETRY_SECONDS, retryDelayMs, type OutgoingEndpoint } from "./outgoingDelivery.sql.ts";
import {
  enqueueAgain,
  noteEnqueued,
  planDeliveries,
  readQueueStanding,
  readToEnqueue,
  type Wanted,
} from "./outgoingPlan.sql.ts";

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

const PLAN_LIMIT = 500;
/** More than these wait in the feed instead of in the queue. */
const PENDING_MAX = 10_000;
const LOOK_BUSY_MS = 100;
const LOOK_IDLE_MS = 1_000;
const COMPARE_EVERY_MS = 10_000;
/** An endpoint has at most this many attempts under way, whatever the number of processes. @internal */
export const UNDER_WAY_MAX = 10;
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
  const feeder = makeFeeder(deps);
  const { retrySeconds = RETRY_SECONDS, endpoint } = deps;
  const opened = await backend.openWorker(makeProcessor(deps), {
    ...WORKER_OPTIONS,
    ...(endpoint.rate !== null && { limiter: { max: endpoint.rate, duration: 1_000 } }),
    settings: {
      backoffStrategy: (attempts, _type, error) => {
        const askedMs = error instanceof DeliveryFailedError ? error.askedMs : 0;
        return retryDelayMs(attempts, { askedMs, chance: Math.random(), retrySeconds });
      },
    },
  });
  const loop = makeLoop({
    run: () => feeder.feed(),
    everyMs: LOOK_IDLE_MS,
    onError(error) {
      const sentence = "outgoing webhooks could not be planned or enqueued and will be tried again";
      logger.warn({ err: error }, sentence);
      // The database may return as a different one.
      feeder.compareAtOnce();
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
function makeFeeder(deps: OutgoingDeps) {
  const { pool, backend, endpoint, clock, compareEveryMs = COMPARE_EVERY_MS } = deps;
  const { queue } = backend;
  const { endpointId } = endpoint;
  const attempts = (deps.retrySeconds ?? RETRY_SECONDS).length + 1;
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
    await beginFeedEpoch(pool);
    const standing = await readQueueStanding(pool, endpointId);
    if (standing === undefined || !backend.isReachable()) return;
    isFull = standing.pending >= PENDING_MAX;
    await queue.setGlobalConcurrency(UNDER_WAY_MAX);
    if (standing.paused !== (await queue.isPaused()))
      await (standing.paused ? queue.pause() : queue.resume());
    const held = await queue.getJobCountByTypes("wait", "active", "delayed", "prioritized");
    if (held < standing.enqueued) await enqueueAgain(pool, endpointId);
  }

  return {
    /** Plans and enqueues the next changes; returns when to look for more. */
    async feed(): Promise<number> {
      const nowMs = clock.monotonicMs();
      if (nowMs - comparedAtMs >= compareEveryMs) {
        await compare();
        comparedAtMs = nowMs;
      }
      const read = isFull ? 0 : (await planDeliveries(pool, endpoint, PLAN_LIMIT)).read;
      return read + (await enqueue()) > 0 ? LOOK_BUSY_MS : LOOK_IDLE_MS;
    },
    compareAtOnce: () => (comparedAtMs = Number.NEGATIVE_INFINITY),
  };
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

function makeProcessor(deps: OutgoingDeps) {
  const deliver = makeDeliver(deps);
  return async (job: Job<OutgoingJob, void>, token?: string): Promise<void> => {
    const number = job.attemptsMade + 1;
    const delivered = await deliver(job.data.deliveryId, {
      number,
      isLast: number >= (job.opts.attempts ?? 1),
    });
    if (delivered.kind === "obsolete") return;
    if (delivered.kind === "waits") {
      await job.moveToDelayed(Date.now() + delivered.delayMs, token);
      throw new bullmq.DelayedError();
    }
    const { outcome, result, story, askedMs } = delivered;
    await job.log(`attempt ${number}: ${story}`);
    if (result === "delivered") return;
    if (result === "dead") throw new bullmq.UnrecoverableError(outcome);
    throw new DeliveryFailedError(outcome, askedMs);
  };
}
