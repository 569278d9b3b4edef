import { requestOverdueRefetches } from "../ledger/openOrders.sql.ts";
import type { LeaderTask } from "./leaderTasks.ts";
import type { PollDeps } from "../cycle/deps.ts";

const EVERY_MS = 600_000;
/** Deliveries take an hour or two. */
const UNCHANGED_HOURS = 6;
const LOOKBACK_DAYS = 14;
/** Some 14,000 a day: single reads cost nothing of the list rate, but refetches that people request come too. */
const ORDERS_MAX = 100;

/** Every ten minutes: open orders that should long have changed are read again one by one. */
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
        deps.logger.debug({ orders }, "open orders are read again, as they did not change for long");
    },
  };
}
