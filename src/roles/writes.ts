import { WRITER_SHARES } from "../provider/budget.ts";
import { makeForward } from "../provider/transport.ts";
import type { Forward } from "../provider/transport.ts";
import type { ReportDeps } from "../api/router.ts";
import { makeBudgets } from "./counting.ts";
import { meterAnswers } from "./metering.ts";
import { assertOwnKey } from "./recordSources.ts";
import { composeApply, openPool } from "./role.ts";
import type { RoleDeps } from "./role.ts";

const WRITE_POOL = { purpose: "write", max: 2, statementTimeoutMs: 5_000 };

/** What the read API needs to forward writes; undefined if that is off. */
export function composeWrites(deps: RoleDeps): ReportDeps["writes"] {
  const { config, clock, logger, metrics } = deps;
  if (!config.writeThrough) return undefined;
  const pool = openPool(deps, WRITE_POOL);
  const budgetOf = makeBudgets(deps, pool, { shares: WRITER_SHARES, purpose: "write" });
  const senders = new Map<string, Forward>();
  for (const source of config.sources) {
    const { sourceId, baseUrl, apiKey } = source;
    // No token may write to it, or there would be a key.
    if (apiKey === null) continue;
    const onAnswer = meterAnswers(metrics);
    const forward = makeForward({ baseUrl, apiKey, budget: budgetOf(source), clock, logger, onAnswer });
    senders.set(sourceId, async (request) => {
      await assertOwnKey(pool, source, logger);
      return forward(request);
    });
  }
  return {
    forward: (sourceId) => senders.get(sourceId) ?? refuseUnknown(sourceId),
    morePaths: config.writeThroughPaths,
    applyReads: composeApply(deps, pool).applyReads,
    marginSeconds: config.pollMarginSeconds,
  };
}

/** Tokens are only for configured sources, so this is unreachable. */
function refuseUnknown(sourceId: string): never {
  throw new TypeError(`the source ${sourceId} is not configured`);
}
