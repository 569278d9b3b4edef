import { beginFeedEpoch } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import { ConfigurationError } from "../domain/errors.ts";
import { trimAddress } from "../runtime/config/sources.ts";
import type { Config, SourceConfig } from "../runtime/config/config.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { findOtherSources, readSource, recordSources } from "../sources/sources.sql.ts";
import type { SourceRow, StoredSource } from "../sources/sources.sql.ts";

/** Identifies the provider of every demo: its sandbox may answer on another port after each start. */
export const DEMO_PROVIDER = "the sandbox of order-mirror demo";

/** What identifies the provider of a source. A key does not: keys are replaced from time to time. */
export function nameProvider({ provider, baseUrl }: SourceConfig): string {
  // The case of the host, the default port and trailing slashes do not distinguish providers.
  const { protocol, host, pathname } = new URL(baseUrl);
  return provider ?? `${protocol}//${host}${trimAddress(pathname)}`;
}

function toSourceRow(source: SourceConfig): SourceRow {
  const { sourceId, mode, baseUrl } = source;
  return { sourceId, mode, baseUrl, provider: nameProvider(source) };
}

/**
 * Records the configured sources in the database, before anything refers to them, and detects a different database (see
 * beginFeedEpoch). Throws ConfigurationError if a source had another mode or provider before: its orders would mix, and
 * proofs about one would be claimed for the other.
 */
export async function recordConfiguredSources(pool: Pool, config: Pick<Config, "sources">): Promise<void> {
  await beginFeedEpoch(pool);
  const rows = config.sources.map(toSourceRow);
  await recordSources(pool, rows);
  refuseOthers(config.sources, await findOtherSources(pool, rows));
}

/** Throws ConfigurationError when the source has gone to another provider since this process started. */
export async function assertOurs(pool: Pool, source: SourceConfig): Promise<void> {
  refuseOthers([source], await findOtherSources(pool, [toSourceRow(source)]));
}

/**
 * Before a write to the provider: throws ConfigurationError when the source has gone to another provider, or when the
 * poller found the key to be of another organization. If the database cannot be read, the write goes on.
 */
export async function assertOwnKey(pool: Pool, source: SourceConfig, logger: Logger): Promise<void> {
  const { sourceId } = source;
  const known = await readSource(pool, sourceId).catch((error: unknown) => {
    logger.info({ err: error, source: sourceId }, "whose key it is could not be checked before a write");
  });
  if (!known) return;
  refuseOthers([source], [known]);
  if (known.refusedBranches !== null)
    throw new ConfigurationError(
      `The key of source ${sourceId} is of another organization, with the branches ${known.refusedBranches}.`,
      { fix: "Configure the key of the source's own organization." },
    );
}

/** Throws ConfigurationError if one of `sources` has another mode or provider in `stored`. */
function refuseOthers(sources: readonly SourceConfig[], stored: readonly StoredSource[]): void {
  const problems: string[] = [];
  const fixes = new Set<string>();
  for (const source of sources) {
    const { sourceId, mode } = source;
    const known = stored.find((each) => each.sourceId === sourceId);
    if (known === undefined) continue;
    if (known.mode !== mode) {
      problems.push(`Source ${sourceId} holds ${known.mode} orders, and the configuration makes it ${mode}.`);
      fixes.add("Give the source of the other mode another name: test and live orders must never mix.");
    } else if (known.provider !== null && known.provider !== nameProvider(source)) {
      problems.push(
        `Source ${sourceId} belongs to ${known.provider}, and the configuration names ${nameProvider(source)}.`,
      );
      fixes.add(
        `Give another provider a source name of its own (SOURCES_FILE) or another database; if this one has only moved, stop all processes and run \`order-mirror source adopt ${sourceId}\`.`,
      );
    }
  }
  if (problems.length > 0) throw new ConfigurationError(problems.join(" "), { fix: [...fixes].join(" ") });
}
