import { makeApply } from "../apply/apply.ts";
import type { Pool } from "../database/database.ts";
import { makePoller, type Poller } from "../poll/poller.ts";
import type { PollDeps } from "../poll/pollDeps.ts";
import { makeProviderClient, type ProviderClientDeps } from "../provider/client.ts";
import type { SourceConfig } from "../config/config.ts";
import { keyOf } from "../config/sources.ts";
import { openCallCounts } from "../health/calls.sql.ts";
import { meterAnswers } from "../health/metering.ts";
import { composeApply, HOLDER, makeBudgets, modesOf, openApplyPool, type RoleDeps } from "./role.ts";
import { assertOurs, nameProvider, recordConfiguredSources } from "../sources/configuredSources.ts";

/** Starts polling every configured source; of several processes one leads each source. */
export async function startPoller(deps: RoleDeps): Promise<void> {
  const { config, logger, shutdown, metrics } = deps;
  const pool = openApplyPool(deps);
  await recordConfiguredSources(pool, config);
  const apply = composeApply(deps, pool);
  const budgetOf = makeBudgets(deps);
  const onAnswerOf = meterAnswers(metrics, openCallCounts(deps, pool));
  const pollers = config.sources.map((source) => {
    const own = { budget: budgetOf(source), onAnswer: onAnswerOf(source.sourceId) };
    return makeSourcePoller({ ...deps, pool, apply, ...own }, source);
  });
  for (const poller of pollers) poller.start();
  shutdown.onShutdown("pollers", async () => {
    await Promise.all(pollers.map((poller) => poller.close()));
  });
  logger.info({ sources: config.sources.map(({ sourceId }) => sourceId) }, "poller is ready");
}

type ClientDeps = Pick<ProviderClientDeps, "budget" | "onAnswer">;
type CommandDeps = Pick<RoleDeps, "config" | "clock" | "logger"> & { readonly pool: Pool };

/**
 * A poller for a command that waits for a request: while no other process leads the source, it does the work, and
 * otherwise it does nothing. The caller starts and closes it.
 */
export function makeCommandPoller(deps: CommandDeps, source: SourceConfig): Poller {
  const { config, pool, logger } = deps;
  const budget = makeBudgets(deps)(source);
  const apply = makeApply({ pool, logger, modes: modesOf(config) });
  return makeSourcePoller({ ...deps, budget, apply }, source);
}

function makeSourcePoller(
  deps: CommandDeps & Pick<PollDeps, "apply" | "eventGraceSeconds"> & ClientDeps,
  source: SourceConfig,
): Poller {
  const { config, pool, apply, clock, eventGraceSeconds } = deps;
  const { sourceId, mode, baseUrl } = source;
  return makePoller({
    source: { sourceId, mode, provider: nameProvider(source) },
    assertOurs: () => assertOurs(pool, source),
    client: makeProviderClient({ ...deps, baseUrl, apiKey: keyOf(source) }),
    pool,
    apply,
    clock,
    logger: deps.logger.child({ source: sourceId }),
    intervalSeconds: config.pollIntervalSeconds,
    marginSeconds: config.pollMarginSeconds,
    backfillSince: config.backfillSince,
    pace: config.pollPace,
    holder: HOLDER,
    eventGraceSeconds,
  });
}
