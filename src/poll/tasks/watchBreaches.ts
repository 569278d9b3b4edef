import { formatInstant } from "../../domain/order/instant.ts";
import { readBreaches } from "../ledger/breaches.sql.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { LeaderTask } from "./leaderTasks.ts";

const LOGGED_MAX = 20;

/**
 * After each cycle, logs the withdrawn proofs, at most the newest LOGGED_MAX, no matter which process found the cause; at
 * the start, only those whose period is not proved again.
 */
export function makeWatchBreaches({
  pool,
  logger,
  source,
}: Pick<PollDeps, "source" | "pool" | "logger">): LeaderTask {
  const { sourceId } = source;
  let logged: bigint | undefined;
  return {
    name: "watch breaches",
    everyMs: 0,
    async run() {
      const found = await readBreaches(pool, { sourceId, after: logged ?? 0n, limit: LOGGED_MAX });
      for (const { kind, reference, since, until, reprovedAt } of found.toReversed()) {
        if (logged === undefined && reprovedAt !== null) continue;
        const span = { since: formatInstant(since), until: formatInstant(until) };
        logger.error(
          { kind, reference, ...span },
          "a proof was withdrawn: a change was found that it had missed",
        );
      }
      logged = found[0]?.breachId ?? logged ?? 0n;
    },
  };
}
