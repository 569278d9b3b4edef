import { hostname } from "node:os";
import { makeApply } from "../apply/apply.ts";
import { makePoller } from "../poll/poller.ts";
import { makeBudget } from "../provider/budget.ts";
import type { Budget } from "../provider/budget.ts";
import { makeProviderClient } from "../provider/client.ts";
import { SPEC_LIMITS } from "../provider/policies.ts";
import type { SourceConfig } from "../runtime/config.ts";
import { meterBudget, meterDecisions } from "./metering.ts";
import { modesOf, openApplyPool, recordConfiguredSources } from "./role.ts";
import type { RoleDeps } from "./role.ts";
import { keepSpending, recordSpending } from "./spending.ts";
import type { SpendingBook } from "./spending.ts";

/** The other half is the writes' (bin/writes.ts); a poller needs a few requests per second at most. */
const BESIDE_WRITES = {
  ...SPEC_LIMITS,
  sustained: { ...SPEC_LIMITS.sustained, requestsMax: SPEC_LIMITS.sustained.requestsMax / 2 },
};

/** Starts polling every configured source; of several processes one leads each source. */
export async function startPoller(deps: RoleDeps): Promise<void> {
  const { config, clock, logger, shutdown, metrics } = deps;
  const onDecisions = meterDecisions(metrics, clock, deps.onDecisions);
  const pool = openApplyPool(deps);
  await recordConfiguredSources(pool, config);
  const apply = makeApply({ pool, logger, modes: modesOf(config), onDecisions });
  const budgets = new Map<string, Budget>();
  const budgetOf = ({ organization, mode }: SourceConfig): Budget => {
    // Limits apply to an organization and mode, all keys together (spec, "Limits").
    const owner = JSON.stringify([organization, mode]);
    const known = budgets.get(owner);
    if (known) return known;
    const budget = makeBudget({
      clock,
      limits: config.writeThrough ? BESIDE_WRITES : SPEC_LIMITS,
      share: config.rateShare,
    });
    meterBudget(metrics, budget, { organization, mode });
    budgets.set(owner, budget);
    return budget;
  };
  const books: SpendingBook[] = [];
  for (const source of config.sources) {
    const book = keepSpending({ budget: budgetOf(source), pool, sourceId: source.sourceId });
    books.push(book);
    const client = makeProviderClient({
      baseUrl: source.baseUrl,
      apiKey: source.apiKey,
      budget: book.budget,
      clock,
      logger,
    });
    const poller = makePoller({
      source,
      client,
      pool,
      apply,
      clock,
      logger: logger.child({ source: source.sourceId }),
      intervalSeconds: config.pollIntervalSeconds,
      settleSeconds: config.pollSettleSeconds,
      overlapSeconds: config.pollOverlapSeconds,
      backfillSince: config.backfillSince,
      pace: config.pollPace,
      webhooksConfigured: source.webhookSecrets.length > 0,
      holder: `${hostname()}:${process.pid}`,
    });
    poller.start();
    shutdown.onShutdown(`poller ${source.sourceId}`, () => poller.close());
  }
  recordSpending(deps, books);
  logger.info({ sources: config.sources.map((source) => source.sourceId) }, "poller is ready");
}
