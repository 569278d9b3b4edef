import { makeDeliver } from "../outgoing/outgoingDelivery.ts";
import { makeOutgoingDispatch } from "../outgoing/outgoingDispatch.ts";
import { makeSend } from "../outgoing/outgoingSend.ts";
import { makeStandardSigner } from "../signature/signStandard.ts";
import type { Queues } from "./queues.ts";
import { openPool } from "./role.ts";
import type { RoleDeps } from "./role.ts";

/** One plans, the others claim and record; endpoints are waited for without a connection. */
const OUTGOING_POOL = { purpose: "outgoing", max: 3, statementTimeoutMs: 20_000 };

/** Starts telling the configured endpoints of changes; without any it does nothing. */
export async function startOutgoing(deps: RoleDeps & Queues): Promise<void> {
  const { config, outgoingQueue: queue, clock, logger, shutdown } = deps;
  const { outgoingWebhooks } = config;
  if (queue === undefined) return;
  const pool = openPool(deps, OUTGOING_POOL);
  const endpoints = new Map(
    outgoingWebhooks.map(({ endpointId, url, secrets, allowPrivate, fields }) => {
      const sign = makeStandardSigner(secrets);
      return [endpointId, { send: makeSend({ url, sign, clock, allowPrivate }), fields }] as const;
    }),
  );
  const deliver = makeDeliver({ pool, endpoints, logger, random: Math.random });
  const consumer = await queue.consume(deliver);
  shutdown.onShutdown("outgoing webhooks", () => consumer.close());
  const known = new Set(config.sources.map(({ sourceId }) => sourceId));
  const subscriptions = outgoingWebhooks.flatMap(({ endpointId, sourceIds, types, statuses }) =>
    sourceIds
      .filter((sourceId) => known.has(sourceId))
      .map((sourceId) => ({ endpointId, sourceId, types, statuses })),
  );
  const dispatch = makeOutgoingDispatch({ pool, subscriptions, enqueue: queue.enqueue, clock, logger });
  dispatch.start();
  shutdown.onShutdown("outgoing dispatch", () => dispatch.close());
  logger.info({ endpoints: [...endpoints.keys()] }, "outgoing webhooks are ready");
}
