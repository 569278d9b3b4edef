import { recordBranches, type BothOrganizations } from "../apply/recordBranches.sql.ts";
import { ConfigurationError } from "../domain/errors.ts";
import type { OrderSource } from "../domain/source/orderSource.ts";
import type { PollDeps } from "./pollDeps.ts";
import { WalkStalledError } from "./windows.ts";
import type { Term } from "./leadership.ts";

const PAGE_LIMIT = 200;
const PAGES_MAX = 100;

type BranchSource = Pick<OrderSource, "listBranches">;

/**
 * Mirrors the branches that the provider lists. Costs nothing of the list rate. Throws ConfigurationError if they belong to
 * another organization.
 */
export async function mirrorBranches(
  { source, client, pool, clock, logger }: Pick<PollDeps, "source" | "client" | "pool" | "clock" | "logger">,
  { term, signal }: { term: Term; signal: AbortSignal },
): Promise<void> {
  const { sourceId } = source;
  const startedMs = clock.monotonicMs();
  const raws = await listAllBranches(client, signal);
  const ageMs = clock.monotonicMs() - startedMs;
  const recorded = await recordBranches(pool, term.lease, { sourceId, raws, ageMs });
  if (recorded.kind === "refused") throw refuseOrganization(sourceId, recorded);
  const { closed } = recorded;
  if (closed > 0) logger.info({ closed }, "branches are no longer listed by the provider");
}

/** All branches of the key's organization, as JSON texts. Throws WalkStalledError if the list has no end. */
async function listAllBranches(client: BranchSource, signal: AbortSignal): Promise<string[]> {
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

/** The refusal of a key, in one sentence with both organizations, and the ways on. */
function refuseOrganization(sourceId: string, { known, listed }: BothOrganizations): ConfigurationError {
  return new ConfigurationError(
    `Source ${sourceId} belongs to the organization with the branches ${known}, and the configured key is of the one with the branches ${listed}.`,
    {
      fix: `Give another organization a source name of its own (SOURCES_FILE) or another database; if the same one has new branches throughout, stop all processes and run \`order-mirror source adopt ${sourceId}\`.`,
    },
  );
}
