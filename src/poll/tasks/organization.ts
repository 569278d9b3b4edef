import { compareBranches } from "../../apply/recordBranches.sql.ts";
import type { BothOrganizations } from "../../apply/recordBranches.sql.ts";
import type { Pool } from "../../database/database.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import type { OrderSource } from "../../domain/source/orderSource.ts";
import { WalkStalledError } from "../cycle/errors.ts";

const PAGE_LIMIT = 200;
const PAGES_MAX = 100;

type BranchSource = Pick<OrderSource, "listBranches">;

/** All branches of the key's organization, as JSON texts. Throws WalkStalledError if the list has no end. */
export async function listAllBranches(client: BranchSource, signal: AbortSignal): Promise<string[]> {
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

/**
 * Finds out whether the key of `client` belongs to the organization of the source. Returns false while nobody can tell:
 * one of the two has no branches yet. Throws ConfigurationError if it belongs to another organization.
 */
export async function checkOrganization(
  { pool, client, sourceId }: { pool: Pool; client: BranchSource; sourceId: string },
  signal: AbortSignal,
): Promise<boolean> {
  const compared = await compareBranches(pool, { sourceId, raws: await listAllBranches(client, signal) });
  if (compared.kind === "other") throw refuseOrganization(sourceId, compared);
  return compared.kind === "same";
}

/** The refusal of a key, in one sentence with both organizations, and the ways on. */
export function refuseOrganization(
  sourceId: string,
  { known, listed }: BothOrganizations,
): ConfigurationError {
  return new ConfigurationError(
    `Source ${sourceId} belongs to the organization with the branches ${known}, and the configured key is of the one with the branches ${listed}.`,
    {
      fix: `Give another organization a source name of its own (SOURCES_FILE) or another database; if the same one has new branches throughout, stop all processes and run \`order-mirror source adopt ${sourceId}\`.`,
    },
  );
}
