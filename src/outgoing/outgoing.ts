import { beginFeedEpoch } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import type { OutgoingWebhook } from "../config/outgoingFile.ts";
import { withTimeout } from "../process/abort.ts";
import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { planDeliveries, recordAttempt, takeDue, type TakenDelivery } from "./outgoingDeliveries.sql.ts";
import { syncEndpoints } from "./outgoingEndpoints.sql.ts";
import { showAnswer, writeMessage, writeTest } from "./outgoingMessage.ts";
import { judgeAnswer, type SendMessage } from "./outgoingSend.ts";

/*
 * Webhooks to the business's own endpoints. Everything that decides stands in Postgres: a transaction moves an
 * endpoint's place in the feed and makes a delivery of each change; a process takes those that are due, sends them, and
 * records how each attempt ended. What a process does not end within a minute is taken again, so an endpoint may get a
 * message twice, under the same id. Announcements only wake. A queue of BullMQ beside it would be a second memory that
 * a backup does not restore, an eviction empties and a full Redis stops. Start at openOutgoing.
 */

/** An endpoint has at most this many attempts under way, whatever the number of processes. @internal */
export const UNDER_WAY_MAX = 10;
const PLAN_LIMIT = 500;
/** Announcements, and ends of attempts, that come meanwhile share a look. */
const LOOK_PAUSE_MS = 20;
/** An announcement may be lost, and a retry is not announced. */
const LOOK_EVERY_MS = 5_000;
const LIST_EVERY_MS = 10_000;
const PAUSE_AFTER_ERROR_MS = 1_000;
const CLOSE_DEADLINE_MS = 3_000;
/** The delays after each failure, as Standard Webhooks recommends. */
const RETRY_SECONDS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/** Random extra share of the delay, so that what failed together is not retried together. */
const JITTER = 0.2;

const UNRECORDED = "an attempt was not recorded: it does not count, and the message is sent again";
const DISPUTED = "another process lists endpoints with another content, which is in force until it has ended";

type Endpoint = Omit<OutgoingWebhook, "url" | "secrets"> & { readonly send: SendMessage };

export interface OutgoingDeps {
  readonly pool: Pool;
  readonly endpoints: readonly Endpoint[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests, which do not wait for the product's spans. */
  readonly retrySeconds?: readonly number[];
  readonly lookEveryMs?: number;
}

/** Lists the endpoints of this process, and sends each the changes that it wants. Any number of processes may do so. */
export async function openOutgoing(deps: OutgoingDeps) {
  const { pool, endpoints, clock, logger } = deps;
  const lanes = endpoints.map((endpoint) => makeLane(endpoint, deps));
  let disputed = "";

  async function list(): Promise<void> {
    // The database may have returned as a different one.
    await beginFeedEpoch(pool);
    const inForce = await syncEndpoints(pool, endpoints);
    const others = endpoints.map(({ endpointId }) => endpointId).filter((each) => !inForce.includes(each));
    if (others.length > 0 && others.join() !== disputed) logger.warn({ endpoints: others }, DISPUTED);
    disputed = others.join();
  }

  await list();
  const listing = makeLoop({
    run: list,
    everyMs: LIST_EVERY_MS,
    pausesFirst: true,
    onError: (error) => logger.warn({ err: error }, "endpoints could not be listed"),
    clock,
  });
  for (const lane of lanes) lane.start();
  if (endpoints.length > 0) listing.start();
  return {
    /** Looks for changes at once; to be called when some are announced. */
    wake(this: void) {
      for (const lane of lanes) lane.wake();
    },
    /** Stops, after waiting some seconds for attempts under way; the rest is sent again. */
    async close() {
      await Promise.all([listing.stop(), ...lanes.map((lane) => lane.close())]);
    },
  };
}

/** Plans and sends what one endpoint is to get. No endpoint waits for another. */
function makeLane(endpoint: Endpoint, deps: OutgoingDeps) {
  const { pool, clock, logger, lookEveryMs = LOOK_EVERY_MS } = deps;
  const { endpointId, rate } = endpoint;
  const spacingMs = rate === null ? 0 : 1_000 / rate;
  const send = makeAttempt(endpoint, deps);
  const underWay = new Set<Promise<void>>();
  let askedAtMs = 0;
  let tookAtMs = Number.NEGATIVE_INFINITY;

  const loop = makeLoop({
    run: look,
    everyMs: PAUSE_AFTER_ERROR_MS,
    onError: (error) =>
      logger.warn({ endpoint: endpointId, err: error }, "outgoing webhooks cannot be planned or taken"),
    clock,
  });

  async function look(): Promise<number> {
    await take();
    let isMore = false;
    if (underWay.size < UNDER_WAY_MAX) {
      const { read, planned } = await planDeliveries(pool, endpoint, PLAN_LIMIT);
      isMore = read > 0;
      if (planned > 0) await take();
    }
    await clock.sleep(LOOK_PAUSE_MS);
    // As of when Postgres was asked: its answer may take longer than the rate makes messages wait.
    const waitsForRate = rate !== null && askedAtMs - tookAtMs < 2 * spacingMs;
    return isMore ? 0 : waitsForRate ? spacingMs : lookEveryMs;
  }

  async function take(): Promise<void> {
    if (underWay.size >= UNDER_WAY_MAX) return;
    askedAtMs = clock.monotonicMs();
    const taken = await takeDue(pool, endpoint, UNDER_WAY_MAX);
    if (taken.length > 0) tookAtMs = clock.monotonicMs();
    for (const delivery of taken) {
      const ending = send(delivery)
        .catch((error: unknown) =>
          logger.warn({ endpoint: endpointId, delivery_id: delivery.deliveryId, err: error }, UNRECORDED),
        )
        .then(() => {
          underWay.delete(ending);
          loop.wake();
        });
      underWay.add(ending);
    }
  }

  return {
    start: loop.start,
    wake: loop.wake,
    async close() {
      await loop.stop();
      await withTimeout(Promise.all(underWay), CLOSE_DEADLINE_MS);
    },
  };
}

/**
 * The delay after attempt `attempts`, which failed: at least what the endpoint asked for. `chance` is 0 to 1. @internal
 */
export function retryDelayMs(
  attempts: number,
  { askedMs, chance }: { readonly askedMs: number; readonly chance: number },
  retrySeconds: readonly number[],
): number {
  return Math.round(Math.max((retrySeconds[attempts - 1] ?? 0) * 1_000, askedMs) * (1 + JITTER * chance));
}

const SENTENCES = {
  dead: ["error", "an outgoing webhook was given up; it can be sent again by hand"],
  delivered: ["debug", "an outgoing webhook was delivered"],
  pending: ["info", "an outgoing webhook failed and will be tried again"],
} as const;

/** Makes the function that sends a delivery and records the end of the attempt. Rejects if that fails. */
function makeAttempt(endpoint: Endpoint, { pool, logger, retrySeconds = RETRY_SECONDS }: OutgoingDeps) {
  const { endpointId } = endpoint;
  return async (delivery: TakenDelivery): Promise<void> => {
    const { deliveryId, before, after, type } = delivery;
    const isTest = type === "test";
    if (delivery.position === null && !isTest) {
      const end = { outcome: "change_removed", result: "dead", durationMs: 0, answer: null } as const;
      return recordAttempt(pool, { endpointId, deliveryId, ...end });
    }
    const message =
      delivery.position === null ? writeTest(delivery) : writeMessage(delivery, endpoint.fields);
    const sent = await endpoint.send(message);
    const attempts = delivery.attempts + 1;
    const { outcome, result } = judgeAnswer(sent, isTest || attempts > retrySeconds.length);
    const chances = { askedMs: sent.retryAfterMs ?? 0, chance: Math.random() };
    const delayMs = retryDelayMs(attempts, chances, retrySeconds);
    const durationMs = Math.round(sent.durationMs);
    const answer = showAnswer(sent.beginning, [before, after]);
    await recordAttempt(pool, { endpointId, deliveryId, outcome, result, durationMs, answer, delayMs });
    const [level, sentence] = SENTENCES[result];
    logger[level]({ endpoint: endpointId, delivery_id: deliveryId, attempt: attempts, outcome }, sentence);
  };
}
