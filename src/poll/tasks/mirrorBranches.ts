import { recordBranches } from "../../apply/recordBranches.sql.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { selectBranchesDue } from "../ledger/branches.sql.ts";
import type { Term } from "../leader/leadership.ts";
import type { LeaderTask } from "./leaderTasks.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { WalkStalledError } from "../cycle/errors.ts";

/** A name, an address or a connection may change without an order that shows it. */
const EVERY_SECONDS = 180;
/** Orders may go on naming a branch that has closed. */
const PAUSE_SECONDS = 10;
const PAGE_LIMIT = 200;
const PAGES_MAX = 100;

/**
 * Mirrors the branches that the provider lists: at the start of each term, every three minutes, and after a cycle in which
 * an order named a branch that the list does not have. Costs nothing of the list rate.
 * Throws ConfigurationError if they belong to another organization.
 */
export function makeMirrorBranches(
  deps: Pick<PollDeps, "source" | "client" | "pool" | "logger">,
): LeaderTask {
  const { client, pool, logger } = deps;
  const { sourceId } = deps.source;

  /** The term in which this process has read them. */
  let led: Term | undefined;

  async function listAll(signal: AbortSignal): Promise<string[]> {
    const raws: string[] = [];
    for (let pages = 0; pages < PAGES_MAX; pages += 1) {
      const page = await client.listBranches(
        { limit: PAGE_LIMIT, offset: raws.length },
        { priority: "refetch", signal },
      );
      raws.push(...page.raws);
      if (!page.hasMore) return raws;
      if (page.raws.length === 0) break;
    }
    // An incomplete list would close the missing branches.
    throw new WalkStalledError("the provider says that there are more branches but does not list them");
  }

  return {
    name: "mirror branches",
    everyMs: 0,
    opensTerm: true,
    async run({ term, signal }) {
      const pace = { everySeconds: EVERY_SECONDS, pauseSeconds: PAUSE_SECONDS };
      const { due, now } = await selectBranchesDue(pool, { sourceId, ...pace });
      if (!due && led === term) return;
      const raws = await listAll(signal);
      const recorded = await recordBranches(pool, term.lease, { sourceId, raws, readAt: now });
      led = term;
      if (recorded.kind === "refused") throw refuseOrganization(sourceId, recorded);
      const { closed } = recorded;
      if (closed > 0) logger.info({ closed }, "branches are no longer listed by the provider");
    },
  };
}

function refuseOrganization(
  sourceId: string,
  { known, listed }: { readonly known: string; readonly listed: string },
): ConfigurationError {
  return new ConfigurationError(
    `Source ${sourceId} belongs to the organization with the branches ${known}, and the configured key is of the one with the branches ${listed}.`,
    {
      fix: `Give another organization a source name of its own (SOURCES_FILE) or another database; if the same one has new branches throughout, stop all processes and run \`order-mirror source adopt ${sourceId}\`.`,
    },
  );
}
