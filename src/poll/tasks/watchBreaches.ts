import { formatInstant } from "../../domain/order/instant.ts";
import { readBreaches } from "../ledger/breaches.sql.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { Chore } from "./chores.ts";

const TOLD_MAX = 20;

/**
 * After each cycle: a line in the log for each proof that was taken back, whoever found why; at the start for those
 * whose span is not proved again.
 */
export function makeWatchBreaches({
  pool,
  logger,
  source,
}: Pick<PollDeps, "source" | "pool" | "logger">): Chore {
  const { sourceId } = source;
  let told: bigint | undefined;
  return {
    name: "watch breaches",
    everyMs: 0,
    async run() {
      const found = await readBreaches(pool, { sourceId, after: told ?? 0n, limit: TOLD_MAX });
      for (const { kind, reference, since, until, reprovedAt } of found.toReversed()) {
        if (told === undefined && reprovedAt !== null) continue;
        const span = { since: formatInstant(since), until: formatInstant(until) };
        logger.error(
          { kind, reference, ...span },
          "a proof was taken back: a change was found that it had missed",
        );
      }
      told = found[0]?.breachId ?? told ?? 0n;
    },
  };
}
