import type { Pool } from "../database/database.ts";
import { beginFeedEpoch } from "../changes/feedEpoch.sql.ts";
import {
  forgetDelivered,
  planDeliveries,
  recordSubscriptions,
  takeOverdueDeliveries,
} from "./outgoingPlan.sql.ts";
import type { DueDelivery, OutgoingSubscription } from "./outgoingPlan.sql.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";

const PLAN_LIMIT = 500;
const LOOK_MIN_MS = 100;
const LOOK_MAX_MS = 1_000;
const OVERDUE_INTERVAL_MS = 15_000;
/** Younger ones are left to their jobs. */
const OVERDUE_SECONDS = 30;
const OVERDUE_LIMIT = 500;
const CLEAN_INTERVAL_MS = 3_600_000;
const KEPT_DAYS = 7;

export interface OutgoingDispatch {
  /** Plans what changed since the last time and brings back what no job brought; returns how many deliveries. */
  runOnce(): Promise<number>;
  start(): void;
  close(): Promise<void>;
}

interface DispatchDeps {
  readonly pool: Pool;
  readonly subscriptions: readonly OutgoingSubscription[];
  /** Enqueues jobs for deliveries; lost ones are found again. */
  readonly enqueue: (deliveries: readonly DueDelivery[]) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests, which do not wait for the product's spans. */
  readonly overdueSeconds?: number;
  readonly overdueIntervalMs?: number;
}

/**
 * Turns the change feed into deliveries, one for each endpoint that wants a change, and has jobs work on them. Any
 * number of processes may run it.
 */
export function makeOutgoingDispatch(deps: DispatchDeps): OutgoingDispatch {
  const { pool, subscriptions, clock, logger, overdueIntervalMs = OVERDUE_INTERVAL_MS } = deps;
  const isDue = makeTimes(clock);
  let prepared = false;
  let waitMs = LOOK_MIN_MS;

  async function runOnce(signal?: AbortSignal): Promise<number> {
    if (!prepared) {
      await beginFeedEpoch(pool);
      await recordSubscriptions(pool, subscriptions);
      prepared = true;
    }
    let count = 0;
    for (const subscription of subscriptions) count += await planAll(deps, subscription, signal);
    if (isDue("overdue", overdueIntervalMs)) count += await enqueueOverdue(deps);
    if (isDue("clean", CLEAN_INTERVAL_MS)) await forgetDelivered(pool, KEPT_DAYS);
    return count;
  }

  const loop = makeLoop({
    async run(signal) {
      waitMs = (await runOnce(signal)) > 0 ? LOOK_MIN_MS : Math.min(waitMs * 2, LOOK_MAX_MS);
      return waitMs;
    },
    everyMs: LOOK_MAX_MS,
    onError(error) {
      logger.warn({ err: error }, "outgoing webhooks could not be planned and will be tried again");
      // The database may return as a different one.
      prepared = false;
    },
    clock,
  });
  return { runOnce, start: loop.start, close: loop.stop };
}

async function planAll(
  { pool, enqueue, logger }: DispatchDeps,
  subscription: OutgoingSubscription,
  signal: AbortSignal | undefined,
): Promise<number> {
  let count = 0;
  while (!signal?.aborted) {
    const { read, missed, deliveries } = await planDeliveries(pool, subscription, PLAN_LIMIT);
    if (missed)
      logger.warn(
        { endpoint: subscription.endpointId, source: subscription.sourceId },
        "changes were removed before outgoing webhooks were made of them; the endpoint is notified",
      );
    await enqueue(deliveries);
    count += deliveries.length;
    if (read < PLAN_LIMIT) break;
  }
  return count;
}

async function enqueueOverdue({
  pool,
  subscriptions,
  enqueue,
  overdueSeconds = OVERDUE_SECONDS,
}: DispatchDeps): Promise<number> {
  const endpointIds = [...new Set(subscriptions.map(({ endpointId }) => endpointId))];
  const query = { endpointIds, overdueSeconds, limit: OVERDUE_LIMIT };
  const overdue = await takeOverdueDeliveries(pool, query);
  await enqueue(overdue);
  return overdue.length;
}

/** Asks whether something that happens once in `intervalMs` is due, and counts it as done then. */
function makeTimes(clock: Clock): (name: string, intervalMs: number) => boolean {
  const doneAtMs = new Map<string, number>();
  return (name, intervalMs) => {
    const nowMs = clock.monotonicMs();
    const last = doneAtMs.get(name);
    if (last !== undefined && nowMs - last < intervalMs) return false;
    doneAtMs.set(name, nowMs);
    return true;
  };
}
