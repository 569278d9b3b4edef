import { beginFeedEpoch } from "../changes/feedEpoch.sql.ts";
import type { Pool } from "../database/database.ts";
import { unlessLate } from "../runtime/lifecycle/abort.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { claimDue, correctTimesAhead, UNDER_WAY_MAX } from "./outgoingAttempt.sql.ts";
import type { Claim } from "./outgoingAttempt.sql.ts";
import { LOST_AFTER_SECONDS, makeDeliver } from "./outgoingDelivery.ts";
import type { OutgoingEndpoint } from "./outgoingDelivery.ts";
import { planDeliveries, recordSubscriptions } from "./outgoingPlan.sql.ts";
import type { OutgoingSubscription } from "./outgoingPlan.sql.ts";

const PLAN_LIMIT = 500;
const LOOK_MIN_MS = 100;
const LOOK_MAX_MS = 1_000;
const CLOSE_DEADLINE_MS = 5_000;
const CORRECT_EVERY_MS = 60_000;

interface LaneDeps {
  readonly pool: Pool;
  readonly endpoint: OutgoingEndpoint;
  readonly subscriptions: readonly OutgoingSubscription[];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: () => number;
  /** For tests, which do not wait for the product's spans. */
  readonly retrySeconds?: readonly number[];
}

/**
 * Turns the changes that one endpoint wants into deliveries, and sends them. Any number of processes may run a lane of
 * the same endpoint; together they stay within its limits. Endpoints share nothing but connections to Postgres, and no
 * connection is held while an endpoint answers.
 */
export function makeOutgoingLane(deps: LaneDeps) {
  const { pool, subscriptions, clock, logger } = deps;
  const senders = makeSenders(deps, () => loop.wake());
  let prepared = false;
  let plannedAtMs = -Infinity;
  let correctedAtMs = -Infinity;
  let waitMs = LOOK_MIN_MS;

  async function plan(signal?: AbortSignal): Promise<number> {
    const nowMs = clock.monotonicMs();
    if (nowMs - plannedAtMs < LOOK_MIN_MS) return 0;
    plannedAtMs = nowMs;
    if (!prepared) {
      await beginFeedEpoch(pool);
      await recordSubscriptions(pool, subscriptions);
      prepared = true;
    }
    if (nowMs - correctedAtMs >= CORRECT_EVERY_MS) {
      await correctTimesAhead(pool, deps.endpoint.endpointId);
      correctedAtMs = nowMs;
    }
    let count = 0;
    for (const subscription of subscriptions) count += await planAll(deps, subscription, signal);
    return count;
  }

  const loop = makeLoop({
    async run(signal) {
      const planned = await plan(signal);
      const { sent, isHeld } = await senders.send();
      const isBusy = planned > 0 || sent.length > 0 || isHeld;
      waitMs = isBusy ? LOOK_MIN_MS : Math.min(waitMs * 2, LOOK_MAX_MS);
      return waitMs;
    },
    everyMs: LOOK_MAX_MS,
    onError(error) {
      logger.warn(
        { err: error },
        "outgoing webhooks could not be planned or claimed and will be tried again",
      );
      // The database may return as a different one.
      prepared = false;
    },
    clock,
  });
  return {
    /** Plans and sends what is due now. Resolves with the number of attempts when their ends are recorded. */
    async runOnce() {
      plannedAtMs = -Infinity;
      await plan();
      const { sent } = await senders.send();
      await Promise.all(sent);
      return sent.length;
    },
    start: loop.start,
    /** Stops, after waiting some seconds for attempts under way; the rest count as lost and are sent again. */
    async close() {
      await loop.stop();
      await senders.drain();
    },
  };
}

/** Sends what is due. `onEnd` is called after each attempt. */
function makeSenders(deps: LaneDeps, onEnd: () => void) {
  const { pool, endpoint, logger } = deps;
  const deliver = makeDeliver(deps);
  const sending = new Set<Promise<void>>();

  function begin(claim: Claim): Promise<void> {
    const attempt = deliver(claim)
      .catch((error: unknown) => {
        logger.warn({ err: error }, "the end of an outgoing webhook could not be recorded; it is sent again");
      })
      .finally(() => {
        sending.delete(attempt);
        onEnd();
      });
    sending.add(attempt);
    return attempt;
  }

  return {
    async send(): Promise<{ sent: Promise<void>[]; isHeld: boolean }> {
      const limit = UNDER_WAY_MAX - sending.size;
      if (endpoint.paused || limit === 0) return { sent: [], isHeld: false };
      const lostAfterSeconds = LOST_AFTER_SECONDS;
      const { claims, isHeld } = await claimDue(pool, { ...endpoint, limit, lostAfterSeconds });
      return { sent: claims.map(begin), isHeld };
    },
    async drain(): Promise<void> {
      const outcome = await unlessLate(Promise.all(sending), CLOSE_DEADLINE_MS);
      if (outcome === "late")
        logger.warn("outgoing webhooks under way did not end in time; they are sent again");
    },
  };
}

async function planAll(
  { pool, logger }: LaneDeps,
  subscription: OutgoingSubscription,
  signal: AbortSignal | undefined,
): Promise<number> {
  let count = 0;
  while (!signal?.aborted) {
    const { read, missed, planned } = await planDeliveries(pool, subscription, PLAN_LIMIT);
    if (missed)
      logger.warn(
        { endpoint: subscription.endpointId, source: subscription.sourceId },
        "changes were removed before outgoing webhooks were made of them; the endpoint is notified",
      );
    count += planned;
    if (read < PLAN_LIMIT) break;
  }
  return count;
}
