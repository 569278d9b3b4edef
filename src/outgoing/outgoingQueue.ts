import type { Job } from "bullmq";
import { beginFeedEpoch } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import { openBackend, type QueueBackend, type QueuePlace } from "../queue/backend.ts";
import { bullmq } from "../queue/packages.ts";
import type { OutgoingWebhook } from "../config/outgoingFile.ts";
import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { readDue, recordAttempt } from "./outgoingDelivery.sql.ts";
import { showAnswer, writeMessage } from "./outgoingMessage.ts";
import {
  enqueueAgain,
  planDeliveries,
  readQueueStanding,
  takeToEnqueue,
  type Wanted,
} from "./outgoingPlan.sql.ts";
import { judgeAnswer, type SendMessage } from "./outgoingSend.ts";

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
/** The delays after each failure, as Standard Webhooks recommends: a little over three days until it is dead. */
const RETRY_SECONDS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/** Random extra share of the delay, so that what failed together is not retried together. */
const JITTER = 0.2;
/** An earlier change of the order is under way, or waits itself. */
const EARLIER_UNDER_WAY_MS = 200;
const EARLIER_FAILED_MS = 5_000;

const JOB_OPTIONS = {
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
export function openOutgoingQueue(place: QueuePlace, endpointId: string, logger: Logger) {
  const options = { defaultJobOptions: JOB_OPTIONS };
  const name = `outgoing-${endpointId}`;
  return openBackend<OutgoingJob>(place, { name, options, connections: CONNECTIONS, logger });
}

export interface OutgoingDeps {
  readonly pool: Pool;
  readonly backend: QueueBackend<OutgoingJob>;
  readonly endpoint: Wanted &
    Pick<OutgoingWebhook, "fields" | "ordered" | "rate"> & { readonly send: SendMessage };
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests, which do not wait for the product's spans. */
  readonly retrySeconds?: readonly number[];
  readonly compareEveryMs?: number;
}

/** Turns the changes that one endpoint wants into deliveries, and sends them. Any number of processes may do so. */
export async function openOutgoing(deps: OutgoingDeps) {
  const { backend, endpoint, retrySeconds = RETRY_SECONDS, clock, logger } = deps;
  const feeder = makeFeeder(deps);
  const opened = await backend.openWorker(makeProcessor(deps), {
    ...WORKER_OPTIONS,
    ...(endpoint.rate !== null && { limiter: { max: endpoint.rate, duration: 1_000 } }),
    settings: {
      backoffStrategy: (attempts, _type, error) => {
        const askedMs = error instanceof DeliveryFailedError ? error.askedMs : 0;
        return retryDelayMs(attempts, { askedMs, chance: Math.random() }, retrySeconds);
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
    if (!backend.isReachable()) return 0;
    const deliveries = await takeToEnqueue(pool, endpointId, PLAN_LIMIT);
    // One by one: in Postgres, a bulk would create a sequence for its ids, which the worker's login may not.
    for (const deliveryId of deliveries) {
      // A job that exists is not added again.
      await queue.add("deliver", { deliveryId }, { jobId: `delivery-${deliveryId}`, attempts });
    }
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

/**
 * The delay after attempt `attempts`, which failed: at least what the endpoint asked for. `chance` is 0 to 1. @internal
 */
export function retryDelayMs(
  attempts: number,
  { askedMs, chance }: { readonly askedMs: number; readonly chance: number },
  retrySeconds: readonly number[] = RETRY_SECONDS,
): number {
  return Math.round(Math.max((retrySeconds[attempts - 1] ?? 0) * 1_000, askedMs) * (1 + JITTER * chance));
}

const SENTENCES = {
  dead: ["error", "an outgoing webhook was given up; it can be sent again by hand"],
  delivered: ["debug", "an outgoing webhook was delivered"],
  pending: ["info", "an outgoing webhook failed and will be tried again"],
} as const;

/**
 * Makes the function that sends a delivery, if it is still to be sent, and records the end of the attempt. After an error
 * of the database the attempt is repeated, so an endpoint may get a message twice.
 */
function makeProcessor({ pool, endpoint, logger }: OutgoingDeps) {
  return async (job: Job<OutgoingJob, void>, token?: string): Promise<void> => {
    const { deliveryId } = job.data;
    const due = await readDue(pool, deliveryId, endpoint);
    // It ended, is sent again under another number, or its endpoint is retired.
    if (due === undefined) return;
    const { earlierAttempts, position } = due;
    if (earlierAttempts !== null) {
      const delayMs = earlierAttempts === 0 ? EARLIER_UNDER_WAY_MS : EARLIER_FAILED_MS;
      await job.moveToDelayed(Date.now() + delayMs, token);
      throw new bullmq.DelayedError();
    }
    if (position === null) {
      const end = { outcome: "change_removed", result: "dead", durationMs: 0, answer: null } as const;
      await recordAttempt(pool, { deliveryId, ...end });
      throw new bullmq.UnrecoverableError(end.outcome);
    }
    const attempt = job.attemptsMade + 1;
    const change = { ...due, position };
    const { id, body } = writeMessage({ ...due, change }, endpoint.fields);
    const sent = await endpoint.send({ id, body });
    const { outcome, result } = judgeAnswer(sent, attempt >= (job.opts.attempts ?? 1));
    const durationMs = Math.round(sent.durationMs);
    const shown = sent.kind === "answered" ? showAnswer(sent.beginning, body) : null;
    const answer = await recordAttempt(pool, { deliveryId, durationMs, outcome, result, answer: shown });
    const fields = { endpoint: endpoint.endpointId, delivery_id: deliveryId, reference: change.reference };
    const [level, sentence] = SENTENCES[result];
    logger[level]({ ...fields, attempt, outcome }, sentence);
    await job.log(`attempt ${attempt}: ${outcome} after ${durationMs} ms: ${answer ?? "no answer to show"}`);
    if (result === "delivered") return;
    if (result === "dead") throw new bullmq.UnrecoverableError(outcome);
    const askedMs = sent.kind === "answered" ? (sent.retryAfterMs ?? 0) : 0;
    throw new DeliveryFailedError(outcome, askedMs);
  };
}
