import { recordBranches } from "../../apply/recordBranches.sql.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import type { LeaderTask } from "./leaderTasks.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { WalkStalledError } from "../cycle/errors.ts";

const EVERY_MS = 3_600_000;
const PAGE_LIMIT = 200;
const PAGES_MAX = 100;

/**
 * At the start of each term and every hour, mirrors the branches that the provider lists. Costs nothing of the list rate.
 * Throws ConfigurationError if they belong to another organization.
 */
export function makeMirrorBranches(
  deps: Pick<PollDeps, "source" | "client" | "pool" | "logger">,
): LeaderTask {
  const { client, pool, logger } = deps;
  const { sourceId } = deps.source;

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
    everyMs: EVERY_MS,
    opensTerm: true,
    async run({ term, signal }) {
      const raws = await listAll(signal);
      const recorded = await recordBranches(pool, term.lease, { sourceId, raws });
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
