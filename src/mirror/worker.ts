import { makeGroupApply } from "../apply/groupApply.ts";
import { makeOverdueCheck, OVERDUE_AFTER_SECONDS } from "../apply/overdueCheck.ts";
import { renewLease } from "../database/leases.sql.ts";
import { listenForAnnouncements } from "../changes/announcements.ts";
import { openOutgoing } from "../outgoing/outgoing.ts";
import { makeSend } from "../outgoing/outgoingSend.ts";
import { findFirstPending, takeOverdue } from "../receive/inbox.sql.ts";
import { removeAllOld } from "../retention/retention.sql.ts";
import { makeSigner } from "../signature/sign.ts";
import {
  composeApply,
  openApplyPool,
  openPool,
  runExclusively,
  type QueueDeps,
  type RoleDeps,
} from "./role.ts";
import { recordConfiguredSources } from "../sources/configuredSources.ts";

/**
 * Starts applying events, by every job of the queue, and by the overdue check what no job brought; outgoing webhooks;
 * and retention.
 */
export async function startWorker(deps: QueueDeps): Promise<void> {
  const { config, clock, logger, shutdown, queue } = deps;
  const pool = openApplyPool(deps);
  await recordConfiguredSources(pool, config);
  const sourceIds = config.sources.map(({ sourceId }) => sourceId);
  const apply = composeApply(deps, pool);
  const overdueCheck = makeOverdueCheck({
    takeOverdue: (query) =>
      takeOverdue(pool, { ...query, sourceIds, olderThanSeconds: OVERDUE_AFTER_SECONDS }),
    findFirstPending: ({ afterSeq }) => findFirstPending(pool, { sourceIds, afterSeq }),
    applyEvents: apply.applyEvents,
    clock,
    logger,
  });
  overdueCheck.start();
  shutdown.onShutdown("overdue check", () => overdueCheck.close());
  const consumer = await queue.consume(makeGroupApply(apply));
  shutdown.onShutdown("queue consumer", () => consumer.close());
  await startOutgoing(deps);
  startRetention(deps);
  logger.info({ sources: sourceIds }, "worker is ready");
}

/** Statements are short, and no connection is held while an endpoint answers. */
const OUTGOING_POOL = { purpose: "outgoing", max: 3, statementTimeoutMs: 20_000 };

/** Lists the configured endpoints, and notifies them of changes. Those of other processes stay as they are. */
async function startOutgoing(deps: RoleDeps): Promise<void> {
  const { config, databaseUrl, clock, logger, shutdown } = deps;
  if (config.outgoingWebhooks.length === 0) return;
  const endpoints = config.outgoingWebhooks.map(({ url, secrets, ...endpoint }) => ({
    ...endpoint,
    send: makeSend({ url, sign: makeSigner({ secrets }), clock }),
  }));
  const outgoing = await openOutgoing({ pool: openPool(deps, OUTGOING_POOL), endpoints, clock, logger });
  const announcements = listenForAnnouncements({ databaseUrl, onChanges: outgoing.wake, clock, logger });
  shutdown.onShutdown("outgoing webhooks", async () => {
    await Promise.all([announcements.close(), outgoing.close()]);
  });
}

/** A pass renews the lease with each step, so the next pass starts this long after its end. */
const TURN_MS = 3_600_000;
const RETENTION_POOL = { purpose: "retention", max: 1, statementTimeoutMs: 20_000 };

/** Removes what is older than configured. */
function startRetention(deps: RoleDeps): void {
  const { config, clock, logger } = deps;
  const pool = openPool(deps, RETENTION_POOL);
  runExclusively(deps, { name: "retention", pool, turnMs: TURN_MS }, async ({ lease, signal }) => {
    const renew = () => renewLease(pool, lease, { ttlMs: TURN_MS });
    await removeAllOld({ pool, clock, logger, signal, renew }, config);
  });
}
