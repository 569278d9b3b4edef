import { makeApply } from "../apply/apply.ts";
import { makeGroupApply } from "../apply/groupApply.ts";
import { makeOverdueCheck, OVERDUE_AFTER_SECONDS } from "../apply/overdueCheck.ts";
import { takeOverdue } from "../receive/inbox.sql.ts";
import { meterJob } from "./metering.ts";
import { startRetention } from "./retention.ts";
import { startOutgoing } from "./outgoing.ts";
import { recordConfiguredSources } from "./recordSources.ts";
import { composeOnDecisions, modesOf, openApplyPool } from "./role.ts";
import type { Queues, RoleDeps } from "./role.ts";
import { deliveryEvents } from "../wire/events.ts";

/** Starts applying events, by every job of the queue, and by the overdue check what no job brought; outgoing webhooks; and retention. */
export async function startWorker(deps: RoleDeps & Queues): Promise<void> {
  const { config, clock, logger, shutdown, queue, metrics } = deps;
  const pool = openApplyPool(deps);
  const onDecisions = composeOnDecisions(deps, pool);
  await recordConfiguredSources(pool, config);
  const modes = modesOf(config);
  const apply = makeApply({ events: deliveryEvents, pool, logger, modes, onDecisions });
  const overdueCheck = makeOverdueCheck({
    takeOverdue: (query) =>
      takeOverdue(pool, { ...query, sourceIds: [...modes.keys()], olderThanSeconds: OVERDUE_AFTER_SECONDS }),
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
  logger.info({ sources: [...modes.keys()] }, "worker is ready");
}
