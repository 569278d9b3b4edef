import { makeGroupApply } from "../apply/groupApply.ts";
import { makeOverdueCheck, OVERDUE_AFTER_SECONDS } from "../apply/overdueCheck.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";
import { renewLease } from "../database/leases.sql.ts";
import { recordListed } from "../outgoing/outgoingPlan.sql.ts";
import { openOutgoing, openOutgoingQueue } from "../outgoing/outgoingQueue.ts";
import { makeSend } from "../outgoing/outgoingSend.ts";
import { takeOverdue } from "../receive/inbox.sql.ts";
import {
  removeChanges,
  removeCoverage,
  removeCoverageThatStayed,
  removeDelivered,
  removeEvents,
  removeEventsThatStayed,
  removeHistory,
  removeSuperseded,
  removeUnnamedEvents,
  removeUnnamedEventsThatStayed,
  removeUnnamedReads,
  type RetentionRule,
} from "../retention/retention.sql.ts";
import { resolveSince } from "../runtime/config/duration.ts";
import type { Config } from "../runtime/config/config.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { makeStandardSigner } from "../signature/sign.ts";
import { meterJob } from "./metering.ts";
import {
  composeApply,
  openApplyPool,
  openPool,
  recordConfiguredSources,
  takeTurns,
  type Queues,
  type RoleDeps,
} from "./role.ts";

/** Starts applying events, by every job of the queue, and by the overdue check what no job brought; outgoing webhooks; and retention. */
export async function startWorker(deps: RoleDeps & Queues): Promise<void> {
  const { config, clock, logger, shutdown, queue, metrics } = deps;
  const pool = openApplyPool(deps);
  await recordConfiguredSources(pool, config);
  const sourceIds = config.sources.map(({ sourceId }) => sourceId);
  const apply = composeApply(deps, pool);
  const overdueCheck = makeOverdueCheck({
    takeOverdue: (query) =>
      takeOverdue(pool, { ...query, sourceIds, olderThanSeconds: OVERDUE_AFTER_SECONDS }),
    applyEvents: apply.applyEvents,
    clock,
    logger,
  });
  overdueCheck.start();
  shutdown.onShutdown("overdue check", () => overdueCheck.close());
  const applyJob = makeGroupApply(apply);
  const consumer = await queue.consume((seqs) =>
    meterJob({ metrics, clock, queue: queue.bull.name }, () => applyJob(seqs)),
  );
  shutdown.onShutdown("queue consumer", () => consumer.close());
  await startOutgoing(deps);
  startRetention(deps);
  logger.info({ sources: sourceIds }, "worker is ready");
}

/** Statements are short, and no connection is held while an endpoint answers. */
const OUTGOING_POOL = { purpose: "outgoing", max: 3, statementTimeoutMs: 20_000 };

/** Keeps a queue for each configured endpoint; forgets those that are no longer listed. */
async function startOutgoing(deps: RoleDeps): Promise<void> {
  const { config, clock, logger, shutdown } = deps;
  const pool = openPool(deps, OUTGOING_POOL);
  const place = { databaseUrl: deps.databaseUrl, redisUrls: config.redisUrls };
  const retired = await recordListed(pool, config.outgoingWebhooks);
  const opening = config.outgoingWebhooks.map(async (webhook) => {
    const { endpointId, url, secrets } = webhook;
    const send = makeSend({ url, sign: makeStandardSigner(secrets), clock });
    const backend = await openOutgoingQueue(place, endpointId, logger);
    return openOutgoing({ pool, backend, endpoint: { ...webhook, send }, clock, logger });
  });
  const opened = await Promise.all(opening);
  shutdown.onShutdown("outgoing webhooks", async () => {
    await Promise.all(opened.map((outgoing) => outgoing.close()));
  });
  for (const endpointId of retired) {
    logger.info({ endpoint: endpointId }, "an endpoint is no longer listed and is retired");
    // Its jobs would stand in the dashboard for ever.
    const backend = await openOutgoingQueue(place, endpointId, logger);
    try {
      await backend.queue.obliterate({ force: true });
    } finally {
      await backend.close();
    }
  }
}

/** A pass renews the lease with each step, so the next pass starts this long after its end. */
const TURN_MS = 3_600_000;
/** Windows are not needed beyond their proof: long enough to see what was read the day before. */
const COVERAGE_KEPT_FOR = "P2D";
/** Long enough to explain a message that was given up after three days. */
const OUTGOING_KEPT_FOR = "P7D";
/** Input about no order may hold personal data that no erasure finds: it goes, even if events are kept for ever. */
const UNNAMED_KEPT_FOR = "P30D";
/** Rows per statement, with a pause after it: removal must not slow down receiving and applying. */
const STEP_ROWS = 2_000;
const STEP_PAUSE_MS = 200;
/** Of the rows that had to stay, a pass examines this many steps again and leaves the rest to the next passes. */
const AGAIN_STEPS_MAX = 10;

const RETENTION_POOL = { purpose: "retention", max: 1, statementTimeoutMs: 20_000 };

/** Removes what is older than configured. */
function startRetention(deps: RoleDeps): void {
  const { config, clock, logger } = deps;
  const pool = openPool(deps, RETENTION_POOL);
  takeTurns(deps, { name: "retention", pool, turnMs: TURN_MS }, async ({ lease, signal }) => {
    const renew = () => renewLease(pool, lease, { ttlMs: TURN_MS });
    for (const { keptFor, ...rule } of listRules(config)) {
      const turn = { pool, clock, logger, signal, renew };
      if (keptFor !== null) await removeOld(turn, { ...rule, cutoff: resolveSince(keptFor, clock.now()) });
    }
  });
}

interface Removal {
  readonly what: string;
  readonly rule: RetentionRule;
  readonly cutoff: Instant;
  /** Rows of one step. */
  readonly limit?: number;
  readonly stepsMax?: number;
}
type Rule = Omit<Removal, "cutoff" | "limit"> & { readonly keptFor: string | null };

/** First what every worker may remove; changes before the history that they refer to. */
function listRules({ changesKeptFor, historyKeptFor, eventsKeptFor }: Config): Rule[] {
  const stepsMax = AGAIN_STEPS_MAX;
  const unnamed = { what: "input about no order", keptFor: eventsKeptFor ?? UNNAMED_KEPT_FOR };
  return [
    { what: "coverage", keptFor: COVERAGE_KEPT_FOR, rule: removeCoverageThatStayed, stepsMax },
    { what: "coverage", keptFor: COVERAGE_KEPT_FOR, rule: removeCoverage },
    { what: "delivered outgoing webhooks", keptFor: OUTGOING_KEPT_FOR, rule: removeDelivered },
    { what: "changes", keptFor: changesKeptFor, rule: removeChanges },
    { what: "history", keptFor: historyKeptFor, rule: removeSuperseded },
    { what: "history", keptFor: historyKeptFor, rule: removeHistory },
    { ...unnamed, rule: removeUnnamedEventsThatStayed, stepsMax },
    { ...unnamed, rule: removeUnnamedEvents },
    { ...unnamed, rule: removeUnnamedReads },
    { what: "events", keptFor: eventsKeptFor, rule: removeEventsThatStayed, stepsMax },
    { what: "events", keptFor: eventsKeptFor, rule: removeEvents },
  ];
}

/**
 * Removes what a rule says is older than `cutoff`, in small steps; returns how many rows it examined and removed.
 * `renew` extends the lease; the pass ends when it returns false.
 */
export async function removeOld(
  deps: { pool: Pool; clock: Clock; logger: Logger; signal: AbortSignal; renew: () => Promise<boolean> },
  { what, rule, cutoff, limit = STEP_ROWS, stepsMax = Infinity }: Removal,
): Promise<{ removed: number; looked: number }> {
  const { pool, clock, logger, signal, renew } = deps;
  let removed = 0;
  let looked = 0;
  for (let steps = 1; !signal.aborted; steps += 1) {
    const step = await rule(pool, { cutoff, limit });
    removed += step.removed;
    looked += step.looked;
    if (step.over || steps >= stepsMax || !(await renew())) break;
    await clock.sleep(STEP_PAUSE_MS, signal);
  }
  if (removed > 0) logger.info({ what, rows: removed }, "removed what was kept long enough");
  return { removed, looked };
}
