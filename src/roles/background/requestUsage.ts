import type { Pool } from "../../database/database.ts";
import { recordRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { SpentRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { Budget } from "../../provider/rate/budget.ts";
import type { RoleDeps } from "../role.ts";
import { makeTally, saveTallies } from "./tally.ts";

const FLUSH_EVERY_MS = 20_000;

interface Shared {
  readonly budget: Budget;
  readonly sourceId: string;
  /** Replaces the priority of each request. */
  readonly purpose?: string;
}

/** Makes the function that counts what a source sends through a budget; the counts are recorded periodically, and at the end. */
export function makeTrackUsage(
  deps: Pick<RoleDeps, "clock" | "logger" | "shutdown">,
  pool: Pool,
): (shared: Shared) => Budget {
  const tallies: ReturnType<typeof trackRequestUsage>[] = [];
  saveTallies(deps, { name: "request usage", everyMs: FLUSH_EVERY_MS, tallies });
  return (shared) => {
    const usage = trackRequestUsage({ ...shared, pool });
    tallies.push(usage);
    return usage.budget;
  };
}

/** A source's view of the budget that it shares, with a count of what it has sent. @internal */
export function trackRequestUsage(deps: Shared & { readonly pool: Pool }) {
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
  const counted: Budget = {
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
  };
  return { budget: counted, flush };
}
