import type { Pool } from "../../database/database.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { checkOrganization } from "../../poll/tasks/organization.ts";
import type { OrderSource } from "../../domain/source/orderSource.ts";
import type { SourceConfig } from "../../runtime/config/config.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { assertOurs } from "../start/recordSources.ts";

/** A person waits for the write that comes after it. */
const LIST_DEADLINE_MS = 5_000;

/**
 * Makes the check before each write to the provider: is it still the source's own, and does the key belong to its
 * organization? Throws ConfigurationError if not. The organization is compared until one branch is known to both,
 * because a key never changes its organization. If the list or the database cannot be read, the write goes on.
 */
export function makeOwnerCheck(deps: {
  readonly source: SourceConfig;
  readonly client: Pick<OrderSource, "listBranches">;
  readonly pool: Pool;
  readonly logger: Logger;
}): () => Promise<void> {
  const { source, client, pool, logger } = deps;
  const { sourceId } = source;
  let isConfirmed = false;
  let comparison: Promise<boolean> | undefined;

  function compare(): Promise<boolean> {
    comparison ??= checkOrganization(
      { pool, client, sourceId },
      AbortSignal.timeout(LIST_DEADLINE_MS),
    ).finally(() => {
      comparison = undefined;
    });
    return comparison;
  }

  return async function checkOwner() {
    try {
      await assertOurs(pool, source);
      isConfirmed ||= await compare();
    } catch (error) {
      if (error instanceof ConfigurationError) throw error;
      logger.info({ err: error, source: sourceId }, "whose key it is could not be checked before a write");
    }
  };
}
