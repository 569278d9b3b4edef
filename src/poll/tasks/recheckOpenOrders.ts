import { requestOverdueRefetches } from "../ledger/openOrders.sql.ts";
import type { LeaderTask } from "./leaderTasks.ts";
import type { PollDeps } from "../cycle/deps.ts";

const EVERY_MS = 600_000;
/** Deliveries take an hour or two. */
const UNCHANGED_HOURS = 6;
const LOOKBACK_DAYS = 14;
/** About 14,000 a day: single reads cost nothing of the list rate, but people request refetches, too. */
const ORDERS_MAX = 100;

/** Every ten minutes, reads open orders again that should have changed long ago. */
export function makeRecheckOpenOrders(deps: Pick<PollDeps, "source" | "pool" | "logger">): LeaderTask {
  const { sourceId } = deps.source;
  return {
    name: "recheck open orders",
    everyMs: EVERY_MS,
    async run() {
      const orders = await requestOverdueRefetches(deps.pool, {
        sourceId,
        unchangedHours: UNCHANGED_HOURS,
        lookbackDays: LOOKBACK_DAYS,
        limit: ORDERS_MAX,
      });
      if (orders > 0)
        deps.logger.debug({ orders }, "open orders are read again, because they have not changed for long");
    },
  };
}
