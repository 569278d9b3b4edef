import { makePool } from "../../database/database.ts";
import type { Pool } from "../../database/database.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import type { QueueFacts } from "../../health/condition.ts";
import { readHealthOnce } from "../../health/health.ts";
import type { Health } from "../../health/health.ts";
import { makeApplyQueue } from "../../queue/applyQueue.ts";
import { readQueueFacts } from "../../roles/serving/queueFacts.ts";
import type { Config } from "../../runtime/config/config.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { silentLogger } from "../../runtime/telemetry/logger.ts";

/** For the replica and the queue: a command's connections are new, and on a busy machine take a second to open. */
const TIMEOUT_MS = 3_000;

/** The state of each source and the conditions that hold, judged as for the ops page, the metrics and the alerts. */
export async function readHealth(deps: { config: Config; pool: Pool; databaseUrl: string }): Promise<Health> {
  const { config, pool, databaseUrl } = deps;
  const replicaPool = openReplica(config);
  const readQueues = async () => [await readApplyQueue(config, databaseUrl)];
  const sources = () => config.sources;
  try {
    return await readHealthOnce({ pool, replicaPool, clock: systemClock, sources, readQueues });
  } finally {
    await replicaPool?.end();
  }
}

function openReplica({ databaseReadUrl: url }: Config): Pool | undefined {
  if (url === null) return undefined;
  return makePool({ url, purpose: "command", max: 1, statementTimeoutMs: TIMEOUT_MS });
}

async function readApplyQueue({ redisUrls }: Config, databaseUrl: string): Promise<QueueFacts> {
  let queue;
  try {
    queue = await makeApplyQueue({ databaseUrl, redisUrls, logger: silentLogger });
  } catch (error) {
    if (!(error instanceof OrderMirrorError)) throw error;
    const problem = { problem: error.message, fix: error.fix ?? "Check the queue's database." };
    return { name: "apply", problems: [problem], newestDeadAt: null };
  }
  try {
    return await readQueueFacts(queue, TIMEOUT_MS);
  } finally {
    await queue.close();
  }
}
