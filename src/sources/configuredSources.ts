/** Which provider and organization a configured source belongs to, and the refusal of what is not its own. */
import { beginFeedEpoch } from "../changes/changeFeed.sql.ts";
import type { Config, SourceConfig } from "../config/config.ts";
import { trimAddress } from "../config/kinds.ts";
import type { Pool } from "../database/database.ts";
import { ConfigurationError } from "../domain/errors.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { readSource, recordSources, type StoredSource } from "./sources.sql.ts";

/** Identity of a source's provider. A key is none: keys are replaced from time to time. */
export function nameProvider({ provider, baseUrl }: SourceConfig): string {
  // The case of the host, the default port and trailing slashes do not distinguish providers.
  const { protocol, host, pathname } = new URL(baseUrl);
  return provider ?? `${protocol}//${host}${trimAddress(pathname)}`;
}

/**
 * Records the configured sources in the database, before anything refers to them, and detects a different database (see
 * beginFeedEpoch). Throws as assertOurs.
 */
export async function recordConfiguredSources(
  pool: Pool,
  { sources }: Pick<Config, "sources">,
): Promise<void> {
  await beginFeedEpoch(pool);
  await recordSources(
    pool,
    sources.map((source) => ({ ...source, provider: nameProvider(source) })),
  );
  for (const source of sources) await assertOurs(pool, source);
}

/**
 * Throws ConfigurationError when the source is stored with another mode or provider, perhaps since this process
 * started: its orders would mix, and proofs about one would be claimed for the other.
 */
export async function assertOurs(pool: Pool, source: SourceConfig): Promise<void> {
  const known = await readSource(pool, source.sourceId);
  if (known) refuseOther(source, known);
}

/**
 * Checks before a write to the provider: throws ConfigurationError when the source has gone to another provider, or
 * when the poller found the key to be of another organization. If the database cannot be read, the write goes on.
 */
export async function assertOwnKey(pool: Pool, source: SourceConfig, logger: Logger): Promise<void> {
  const { sourceId } = source;
  const known = await readSource(pool, sourceId).catch((error: unknown) => {
    logger.info({ err: error, source: sourceId }, "whose key it is could not be checked before a write");
  });
  if (!known) return;
  refuseOther(source, known);
  if (known.refusedBranches !== null)
    throw new ConfigurationError(
      `The key of source ${sourceId} is of another organization, with the branches ${known.refusedBranches}.`,
      { fix: "Configure the key of the source's own organization." },
    );
}

function refuseOther(source: SourceConfig, known: StoredSource): void {
  const { sourceId, mode } = source;
  const provider = nameProvider(source);
  if (known.mode !== mode)
    throw new ConfigurationError(
      `Source ${sourceId} holds ${known.mode} orders, and the configuration makes it ${mode}.`,
      { fix: "Give the source of the other mode another name: test and live orders must never mix." },
    );
  if (known.provider !== null && known.provider !== provider)
    throw new ConfigurationError(
      `Source ${sourceId} belongs to ${known.provider}, and the configuration names ${provider}.`,
      {
        fix: `Give another provider a source name of its own (SOURCES_FILE) or another database; if this one has only moved, stop all processes and run \`order-mirror source adopt ${sourceId}\`.`,
      },
    );
}
