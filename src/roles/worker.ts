import { makeGroupApply } from "../apply/groupApply.ts";
import { makeOverdueCheck, OVERDUE_AFTER_SECONDS } from "../apply/overdueCheck.ts";
import { takeOverdue } from "../receive/inbox.sql.ts";
import { meterJob } from "./metering.ts";
import { startRetention } from "./retention.ts";
import { startOutgoing } from "./outgoing.ts";
import { recordConfiguredSources } from "./recordSources.ts";
import { composeApply, openApplyPool } from "./role.ts";
import type { Queues, RoleDeps } from "./role.ts";

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
