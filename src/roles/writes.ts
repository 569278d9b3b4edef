import { makeApply } from "../apply/apply.ts";
import { makeBudget, WRITER_SHARES } from "../provider/budget.ts";
import { makeForward } from "../provider/transport.ts";
import type { Forward } from "../provider/transport.ts";
import type { ReportDeps } from "../api/router.ts";
import { makeTrackUsage } from "./counting.ts";
import { meterAnswers } from "./metering.ts";
import { assertOwnKey } from "./recordSources.ts";
import { composeOnDecisions, modesOf, openPool } from "./role.ts";
import type { RoleDeps } from "./role.ts";
import { deliveryEvents } from "../wire/events.ts";

const WRITE_POOL = { purpose: "write", max: 2, statementTimeoutMs: 5_000 };

/** What the read API needs to forward writes; undefined if that is off. */
export function composeWrites(deps: RoleDeps): ReportDeps["writes"] {
  const { config, clock, logger, metrics } = deps;
  if (!config.writeThrough) return undefined;
  const budgets = new Map<string, ReturnType<typeof makeBudget>>();
  const pool = openPool(deps, WRITE_POOL);
  const trackUsage = makeTrackUsage(deps, pool);
  const senders = new Map<string, Forward>();
  for (const source of config.sources) {
    const { sourceId, organization, mode, baseUrl, apiKey } = source;
    // No token may write to it, or there would be a key.
    if (apiKey === null) continue;
    // Limits apply to an organization and mode, all keys together (spec, "Limits").
    const owner = JSON.stringify([organization, mode]);
    const shared =
      budgets.get(owner) ?? makeBudget({ clock, shares: WRITER_SHARES, share: config.rateShare });
    budgets.set(owner, shared);
    const budget = trackUsage({ budget: shared, sourceId, purpose: "write" });
    const provider = { baseUrl, apiKey, budget, clock, logger, onAnswer: meterAnswers(metrics) };
    const forward = makeForward(provider);
    senders.set(sourceId, async (request) => {
      await assertOwnKey(pool, source, logger);
      return forward(request);
    });
  }
  const onDecisions = composeOnDecisions(deps, pool);
  const { applyReads } = makeApply({
    events: deliveryEvents,
    pool,
    logger,
    modes: modesOf(config),
    onDecisions,
  });
  return {
    forward: (sourceId) => senders.get(sourceId) ?? refuseUnknown(sourceId),
    morePaths: config.writeThroughPaths,
    applyReads,
    marginSeconds: config.pollMarginSeconds,
  };
}

/** Tokens are only for configured sources, so this is unreachable. */
function refuseUnknown(sourceId: string): never {
  throw new TypeError(`the source ${sourceId} is not configured`);
}
