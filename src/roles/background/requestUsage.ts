import type { Pool } from "../../database/database.ts";
import { recordRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { SpentRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { Budget } from "../../provider/rate/budget.ts";
import type { RoleDeps } from "../role.ts";
import { makeTally, saveTallies } from "./tally.ts";

/** A source's view of the budget that it shares, with a count of what it has sent. */
export interface RequestUsage {
  readonly budget: Budget;
  readonly flush: () => Promise<void>;
}

const FLUSH_EVERY_MS = 20_000;

/** `purpose` replaces the priority of each request. */
export function trackRequestUsage(deps: {
  readonly budget: Budget;
  readonly pool: Pool;
  readonly sourceId: string;
  readonly purpose?: string;
}): RequestUsage {
  const { budget, pool, sourceId } = deps;
  const { add, flush } = makeTally<SpentRequests>({
    keyOf: ({ policy, purpose }) => `${policy} ${purpose}`,
    join: (sum, count) => ({
      ...sum,
      requests: sum.requests + count.requests,
      refused: sum.refused + count.refused,
    }),
    write: (counts) => recordRequests(pool, { sourceId, counts }),
  });
  return {
    budget: {
      ...budget,
      async acquire(request) {
        const permit = await budget.acquire(request);
        const count = { policy: request.policy, purpose: deps.purpose ?? request.priority };
        add({ ...count, requests: 1, refused: 0 });
        return {
          ...permit,
          learn(lesson) {
            if (lesson.refusedForMs !== null) add({ ...count, requests: 0, refused: 1 });
            return permit.learn(lesson);
          },
        };
      },
    },
    flush,
  };
}

/** Records the usage of each source periodically, and at the end. */
export function saveRequestUsage(
  deps: Pick<RoleDeps, "clock" | "logger" | "shutdown">,
  usages: readonly RequestUsage[],
): void {
  saveTallies(deps, { name: "request usage", everyMs: FLUSH_EVERY_MS, tallies: usages });
}
