import { makeApply } from "../apply/apply.ts";
import type { Pool } from "../database/database.ts";
import { makePoller } from "../poll/leader/poller.ts";
import type { Poller } from "../poll/leader/poller.ts";
import { makeTicks } from "../poll/leader/ticks.ts";
import { makeBudget, POLLER_SHARES } from "../provider/budget.ts";
import type { Budget } from "../provider/budget.ts";
import { makeProviderClient } from "../provider/client.ts";
import type { SourceConfig } from "../runtime/config/config.ts";
import { keyOf } from "../runtime/config/sources.ts";
import { keepRunning } from "./start/reloadableConfig.ts";
import { meterAnswers, meterBudget } from "./background/metering.ts";
import { assertOurs, recordConfiguredSources } from "./start/recordSources.ts";
import { HOLDER, modesOf, openApplyPool } from "./role.ts";
import type { RoleDeps } from "./role.ts";
import { composeOnDecisions } from "./background/onDecisions.ts";
import { makeTrackUsage } from "./background/requestUsage.ts";
import { deliveryEvents } from "../wire/events.ts";

/** Starts polling every configured source; of several processes one leads each source. */
export async function startPoller(deps: RoleDeps): Promise<void> {
  const { config, logger, shutdown } = deps;
  const pool = openApplyPool(deps);
  await recordConfiguredSources(pool, config);
  const pollers = keepRunning(makeStart(deps, pool));
  await pollers.use(config.sources);
  deps.reloadable.follow(async ({ sources }) => {
    await recordConfiguredSources(pool, { sources });
    await pollers.use(sources);
  });
  shutdown.onShutdown("pollers", pollers.close);
  logger.info({ sources: config.sources.map(({ sourceId }) => sourceId) }, "poller is ready");
}

/**
 * A poller for a command that waits for a request: while no other process leads the source, it does the work, and
 * otherwise it does nothing. The caller starts and closes it.
 */
export function makeCommandPoller(
  { config, pool, clock, logger }: Pick<RoleDeps, "config" | "clock" | "logger"> & { pool: Pool },
  source: SourceConfig,
): Poller {
  const modes = new Map(modesOf(config));
  const apiKey = keyOf(source);
  const budget = makeBudget({ clock, share: config.rateShare });
  const { baseUrl, webhookSecrets } = source;
  return makePoller({
    pool,
    source,
    holder: HOLDER,
    client: makeProviderClient({ baseUrl, apiKey, budget, clock, logger }),
    apply: makeApply({ events: deliveryEvents, pool, logger, modes }),
    clock,
    logger,
    ...paceOf(config),
    webhooksConfigured: webhookSecrets.length > 0,
    assertOurs: () => assertOurs(pool, source),
  });
}

function paceOf(config: RoleDeps["config"]) {
  return {
    intervalSeconds: config.pollIntervalSeconds,
    marginSeconds: config.pollMarginSeconds,
    backfillSince: config.backfillSince,
    pace: config.pollPace,
  };
}

function makeStart(deps: RoleDeps, pool: Pool): (source: SourceConfig) => Poller {
  const { config, clock, logger, metrics } = deps;
  const trackUsage = makeTrackUsage(deps, pool);
  const onDecisions = composeOnDecisions(deps, pool);
  // Never shortened: a source that was removed may still have a page under way.
  const modes = new Map(modesOf(config));
  const apply = makeApply({ events: deliveryEvents, pool, logger, modes, onDecisions });
  const budgetOf = makeBudgets(deps);
  const onAnswer = meterAnswers(metrics);
  const shared = { pool, ticks: makeTicks(), holder: HOLDER };
  return (source) => {
    const { sourceId, mode, baseUrl, webhookSecrets } = source;
    const apiKey = keyOf(source);
    modes.set(sourceId, mode);
    const budget = trackUsage({ budget: budgetOf(source), sourceId });
    const ownLogger = logger.child({ source: sourceId });
    const poller = makePoller({
      ...shared,
      source,
      client: makeProviderClient({ baseUrl, apiKey, budget, clock, logger, onAnswer }),
      apply,
      clock,
      logger: ownLogger,
      ...paceOf(config),
      eventGraceSeconds: deps.eventGraceSeconds,
      webhooksConfigured: webhookSecrets.length > 0,
      assertOurs: () => assertOurs(pool, source),
    });
    poller.start();
    return poller;
  };
}

/** Limits apply to an organization and mode, all keys together (spec, "Limits"). */
function makeBudgets({ config, clock, metrics }: RoleDeps): (source: SourceConfig) => Budget {
  const budgets = new Map<string, Budget>();
  return ({ organization, mode }) => {
    const owner = JSON.stringify([organization, mode]);
    const known = budgets.get(owner);
    if (known) return known;
    const shares = config.writeThrough ? { shares: POLLER_SHARES } : {};
    const budget = makeBudget({ clock, share: config.rateShare, ...shares });
    meterBudget(metrics, clock, budget, { organization, mode });
    budgets.set(owner, budget);
    return budget;
  };
}
