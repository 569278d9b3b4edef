import { makeApplyQueue } from "../queue/applyQueue.ts";
import { startKeeper } from "./keeper.ts";
import { startPoller } from "./poller.ts";
import type { RoleDeps } from "./role.ts";
import { startWeb } from "./web.ts";
import { startWorker } from "./worker.ts";

/** All roles in this process, over one connection to the queue. Returns the address of the web part. */
export async function startAll(deps: RoleDeps): Promise<{ url: string }> {
  const { config, databaseUrl, logger, shutdown } = deps;
  const queue = await makeApplyQueue({ databaseUrl, redisUrls: config.redisUrls, logger });
  shutdown.onShutdown("queue", () => queue.close());
  await startWorker({ ...deps, queue });
  const web = await startWeb({ ...deps, queue });
  await startPoller(deps);
  startKeeper(deps);
  return web;
}
