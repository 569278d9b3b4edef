import { makeApply } from "../apply/apply.ts";
import type { Pool } from "../database/database.ts";
import { makePoller, type Poller } from "../poll/poller.ts";
import type { PollDeps } from "../poll/pollDeps.ts";
import { makeBudget } from "../provider/budget.ts";
import { makeProviderClient } from "../provider/client.ts";
import type { SourceConfig } from "../runtime/config/config.ts";
import { keyOf } from "../runtime/config/sources.ts";
import { deliveryEvents } from "../wire/events.ts";
import { openCallCounts } from "./calls.sql.ts";
import { meterAnswers } from "./metering.ts";
import {
  assertOurs,
  composeApply,
  HOLDER,
  limitsOf,
  makeBudgets,
  modesOf,
  openApplyPool,
  recordConfiguredSources,
  type RoleDeps,
} from "./role.ts";

/** Starts polling every configured source; of several processes one leads each source. */
export async function startPoller(deps: RoleDeps): Promise<void> {
  const { config, clock, logger, shutdown, metrics } = deps;
  const pool = openApplyPool(deps);
  await recordConfiguredSources(pool, config);
  const apply = composeApply(deps, pool);
  const budgetOf = makeBudgets(deps);
  const onAnswerOf = meterAnswers(metrics, openCallCounts(deps, pool));
  const shared = { apply, eventGraceSeconds: deps.eventGraceSeconds };
  const pollers = config.sources.map((source) => {
    const { sourceId, baseUrl } = source;
    const budget = budgetOf(source);
    const onAnswer = onAnswerOf(sourceId);
    const client = makeProviderClient({ baseUrl, apiKey: keyOf(source), budget, clock, logger, onAnswer });
    const poller = makePoller({
      ...shared,
      ...ofSource({ ...deps, pool }, source),
      client,
      logger: logger.child({ source: sourceId }),
    });
    poller.start();
    return poller;
  });
  shutdown.onShutdown("pollers", async () => {
    await Promise.all(pollers.map((poller) => poller.close()));
  });
  logger.info({ sources: config.sources.map(({ sourceId }) => sourceId) }, "poller is ready");
}

type CommandDeps = Pick<RoleDeps, "config" | "clock" | "logger"> & { readonly pool: Pool };

/**
 * A poller for a command that waits for a request: while no other process leads the source, it does the work, and
 * otherwise it does nothing. The caller starts and closes it.
 */
export function makeCommandPoller(deps: CommandDeps, source: SourceConfig): Poller {
  const { config, pool, clock, logger } = deps;
  const budget = makeBudget({ clock, ...limitsOf(config) });
  const { baseUrl } = source;
  return makePoller({
    ...ofSource(deps, source),
    client: makeProviderClient({ baseUrl, apiKey: keyOf(source), budget, clock, logger }),
    apply: makeApply({ events: deliveryEvents, pool, logger, modes: modesOf(config) }),
  });
}

/** What every poller of a source has. */
function ofSource({ config, pool, clock, logger }: CommandDeps, source: SourceConfig) {
  return {
    pool,
    source,
    holder: HOLDER,
    clock,
    logger,
    intervalSeconds: config.pollIntervalSeconds,
    marginSeconds: config.pollMarginSeconds,
    backfillSince: config.backfillSince,
    pace: config.pollPace,
    assertOurs: () => assertOurs(pool, source),
  } satisfies Partial<PollDeps>;
}
