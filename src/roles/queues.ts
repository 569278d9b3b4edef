import { makeApplyQueue } from "../queue/applyQueue.ts";
import type { ApplyQueue } from "../queue/applyQueue.ts";
import type { RoleDeps } from "./role.ts";

/** The queues of a process. */
export interface Queues {
  readonly queue: ApplyQueue;
}

/** Opens the queues that the configuration asks for; they end with the process. */
export async function openQueues(deps: RoleDeps): Promise<Queues> {
  const { config, databaseUrl, logger, shutdown } = deps;
  const where = { databaseUrl, redisUrls: config.redisUrls, logger };
  const queue = await makeApplyQueue(where);
  shutdown.onShutdown("queue", () => queue.close());
  return { queue };
}
