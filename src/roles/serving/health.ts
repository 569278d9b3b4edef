import { makeHealthReader } from "../../health/health.ts";
import type { HealthReader } from "../../health/health.ts";
import { openPool, openReplicaPool } from "../role.ts";
import type { RoleDeps } from "../role.ts";
import type { Queues } from "../queues.ts";
import { readQueueFacts } from "./queueFacts.ts";

const HEALTH_POOL = { purpose: "metrics", max: 1, statementTimeoutMs: 3_000 };

/** The process's reader of the mirror's state: one for page, metrics, readiness and alerts. */
export function openHealth(deps: RoleDeps & Partial<Queues>): HealthReader {
  const { config, clock, queue } = deps;
  const sources = [...config.sources];
  deps.reloadable.follow(({ sources: changed }) => void sources.splice(0, sources.length, ...changed));
  return makeHealthReader({
    pool: openPool(deps, HEALTH_POOL),
    replicaPool: openReplicaPool(deps, HEALTH_POOL),
    clock,
    sources: () => sources,
    readQueues: queue && (async () => [await readQueueFacts(queue)]),
  });
}
