import type { Queue } from "bullmq";
import type { Pool } from "../database/database.ts";
import { readOutgoingEndpoints } from "../health/endpoints.sql.ts";
import { openOutgoing, OUTGOING_JOB_OPTIONS, outgoingQueueName } from "../outgoing/outgoingQueue.ts";
import type { OutgoingJob } from "../outgoing/outgoingQueue.ts";
import { recordListed } from "../outgoing/outgoingPlan.sql.ts";
import { makeSend } from "../outgoing/outgoingSend.ts";
import { endQueue, openBackend } from "../queue/backend.ts";
import type { QueueBackend } from "../queue/backend.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";
import { makeStandardSigner } from "../signature/sign.ts";
import { openPool } from "./role.ts";
import type { RoleDeps } from "./role.ts";

/** Statements are short, and no connection is held while an endpoint answers. */
const OUTGOING_POOL = { purpose: "outgoing", max: 3, statementTimeoutMs: 20_000 };

/** To Postgres, for each endpoint: one of the worker's listens. */
const QUEUE_CONNECTIONS = { queue: 1, worker: 2 };

/** Keeps a queue for each configured endpoint; forgets those that are no longer listed. */
export async function startOutgoing(deps: RoleDeps): Promise<void> {
  const { config, clock, logger, shutdown } = deps;
  const pool = openPool(deps, OUTGOING_POOL);
  const retired = await recordListed(pool, config.outgoingWebhooks);
  const opening = config.outgoingWebhooks.map(async (webhook) => {
    const { endpointId, url, secrets } = webhook;
    const send = makeSend({ url, sign: makeStandardSigner(secrets), clock });
    const backend = await openEndpointQueue(deps, endpointId);
    return openOutgoing({ pool, backend, endpoint: { ...webhook, send }, clock, logger });
  });
  const opened = await Promise.all(opening);
  shutdown.onShutdown("outgoing webhooks", async () => {
    await Promise.all(opened.map((outgoing) => outgoing.close()));
  });
  for (const endpointId of retired) {
    logger.info({ endpoint: endpointId }, "an endpoint is no longer listed and is retired");
    // Its jobs would stand in the dashboard for ever.
    const backend = await openEndpointQueue(deps, endpointId);
    try {
      await backend.queue.obliterate({ force: true });
    } finally {
      await endQueue(backend);
    }
  }
}

function openEndpointQueue({ config, databaseUrl, logger }: RoleDeps, endpointId: string) {
  return openBackend<OutgoingJob>(
    { databaseUrl, redisUrls: config.redisUrls },
    {
      name: outgoingQueueName(endpointId),
      options: { defaultJobOptions: OUTGOING_JOB_OPTIONS },
      connections: QUEUE_CONNECTIONS,
      logger,
    },
  );
}

const SHOWN_EVERY_MS = 60_000;

/** The queues of all endpoints, for a dashboard; a process that shows them need not know the endpoints' secrets. */
export function showOutgoingQueues(deps: RoleDeps, pool: Pool): () => readonly Queue[] {
  const { clock, shutdown } = deps;
  const shown = new Map<string, QueueBackend<OutgoingJob>>();
  async function hide(endpointId: string, backend: QueueBackend<OutgoingJob>): Promise<void> {
    shown.delete(endpointId);
    await endQueue(backend);
  }
  const loop = makeLoop({
    async run() {
      const names = (await readOutgoingEndpoints(pool)).map(({ endpointId }) => endpointId);
      for (const name of names) if (!shown.has(name)) shown.set(name, await openEndpointQueue(deps, name));
      for (const [name, backend] of shown) if (!names.includes(name)) await hide(name, backend);
      return SHOWN_EVERY_MS;
    },
    everyMs: SHOWN_EVERY_MS,
    // Health reports a database or queue that is away.
    onError: () => undefined,
    clock,
  });
  loop.start();
  shutdown.onShutdown("outgoing queues shown", async () => {
    await loop.stop();
    for (const [name, backend] of shown) await hide(name, backend);
  });
  return () => [...shown.values()].map(({ queue }) => queue);
}
