import type { Pool } from "../../database/database.ts";
import { recordRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { SpentRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { Budget } from "../../provider/budget.ts";
import type { RoleDeps } from "../role.ts";
import { makeTally, saveTally } from "./tally.ts";

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
  const { track, flush } = trackRequestUsage(pool);
  saveTally(deps, { name: "request usage", everyMs: FLUSH_EVERY_MS, flush });
  return track;
}

/** Views of budgets that count what each source sends, and what records the counts of all sources. @internal */
export function trackRequestUsage(pool: Pool) {
  const { add, flush } = makeTally<SpentRequests>({
    keyOf: ({ sourceId, policy, purpose }) => `${policy} ${purpose} ${sourceId}`,
    join: (sum, count) => ({
      ...sum,
      requests: sum.requests + count.requests,
      refused: sum.refused + count.refused,
    }),
    write: (counts) => recordRequests(pool, counts),
  });
  const track = ({ budget, sourceId, ...shared }: Shared): Budget => ({
    ...budget,
    async acquire(request) {
      const permit = await budget.acquire(request);
      const count = { sourceId, policy: request.policy, purpose: shared.purpose ?? request.priority };
      add({ ...count, requests: 1, refused: 0 });
      return {
        ...permit,
        learn(lesson) {
          if (lesson.refusedForMs !== null) add({ ...count, requests: 0, refused: 1 });
          return permit.learn(lesson);
        },
      };
    },
  });
  return { track, flush };
}
