import { openHealth } from "./serving/health.ts";
import { startAlerting } from "./background/alertingLoop.ts";
import { startPoller } from "./poller.ts";
import { openQueues } from "./queues.ts";
import type { RoleDeps } from "./role.ts";
import { startWeb } from "./web.ts";
import type { WebAddress } from "./web.ts";
import { startWorker } from "./worker.ts";

/** All roles in this process, over one connection to the queues. Returns the address of the web part. */
export async function startAll(deps: RoleDeps): Promise<WebAddress> {
  const queues = await openQueues(deps);
  await startWorker({ ...deps, ...queues });
  const health = openHealth({ ...deps, ...queues });
  const web = await startWeb({ ...deps, ...queues, health });
  await startPoller(deps);
  startAlerting({ ...deps, health });
  return web;
}
