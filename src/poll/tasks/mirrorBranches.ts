import { recordBranches } from "../../apply/recordBranches.sql.ts";
import { selectBranchesDue } from "../ledger/branches.sql.ts";
import type { Term } from "../leader/leadership.ts";
import type { LeaderTask } from "./leaderTasks.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { listAllBranches, refuseOrganization } from "./organization.ts";

/** A name, an address or a connection may change without an order that shows it. */
const EVERY_SECONDS = 180;
/** Orders may go on naming a branch that has closed. */
const PAUSE_SECONDS = 10;

/**
 * Mirrors the branches that the provider lists: at the start of each term, every three minutes, and after a cycle in which
 * an order named a branch that the list does not have. Costs nothing of the list rate.
 * Throws ConfigurationError if they belong to another organization.
 */
export function makeMirrorBranches(
  deps: Pick<PollDeps, "source" | "client" | "pool" | "clock" | "logger">,
): LeaderTask {
  const { client, pool, clock, logger } = deps;
  const { sourceId } = deps.source;

  /** The term in which this process has read them. */
  let led: Term | undefined;
  let readAtMs = Number.NEGATIVE_INFINITY;
  const isOld = () => clock.monotonicMs() - readAtMs >= EVERY_SECONDS * 1_000;

  return {
    name: "mirror branches",
    everyMs: 0,
    opensTerm: true,
    concerns: ({ newestChange }) => [newestChange, isOld()],
    async run({ term, signal }) {
      const pace = { everySeconds: EVERY_SECONDS, pauseSeconds: PAUSE_SECONDS };
      const { due, waits, now } = await selectBranchesDue(pool, { sourceId, ...pace });
      if (!due && led === term) return waits || isOld() ? "again" : undefined;
      const raws = await listAllBranches(client, signal);
      const recorded = await recordBranches(pool, term.lease, { sourceId, raws, readAt: now });
      led = term;
      readAtMs = clock.monotonicMs();
      if (recorded.kind === "refused") throw refuseOrganization(sourceId, recorded);
      const { closed } = recorded;
      if (closed > 0) logger.info({ closed }, "branches are no longer listed by the provider");
      return waits ? "again" : undefined;
    },
  };
}
