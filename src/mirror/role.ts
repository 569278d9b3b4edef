import type { Mode } from "../domain/source/orderSource.ts";
import { hostname } from "node:os";
import { makeApply, type Apply } from "../apply/apply.ts";
import type { Decision } from "../apply/applySubjects.ts";
import { makeAnnouncer } from "../changes/announcements.ts";
import { readMirrorId } from "../changes/changeFeed.sql.ts";
import { makePool, withClient, type Pool, type PoolOptions } from "../database/database.ts";
import { acquireLease, type Lease } from "../database/leases.sql.ts";
import { makeBudget, type Budget, type BudgetOptions } from "../provider/budget.ts";
import type { ApplyQueue } from "../queue/applyQueue.ts";
import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";
import type { Config, SourceConfig } from "../config/config.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import type { Metrics } from "../process/telemetry/metrics.ts";
import { meterDecisions } from "../health/metering.ts";
import type { Shutdown } from "../process/shutdown.ts";

/** The dependencies of every role at its start. */
export interface RoleDeps {
  readonly config: Config;
  readonly databaseUrl: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly shutdown: Shutdown;
  /** The figures of this process. */
  readonly metrics: Metrics;
  /** The delay with which an event may follow the read that found its change; default: the poller's. */
  readonly eventGraceSeconds?: number | undefined;
  /** Called with every decision of this process. */
  readonly onDecisions?: ((decisions: readonly Decision[]) => void) | undefined;
}

export type QueueDeps = RoleDeps & { readonly queue: ApplyQueue };

/** The name of this process in leases. */
export const HOLDER = `${hostname()}:${process.pid}`;

/** Two connections are what the apply path can use (measured); more only contend. */
const APPLY_POOL = {
  purpose: "apply",
  max: 2,
  statementTimeoutMs: 15_000,
  keepsPlans: true,
  plansForAnyValues: true,
};

/** The things of a process that a pool needs. */
interface PoolDeps {
  readonly config: Pick<Config, "databaseUrl" | "databaseDirectUrl">;
  readonly databaseUrl: string;
  readonly shutdown: Pick<Shutdown, "onShutdown">;
}

/** A pool that ends with the process. It uses the pooler, if there is one. */
export function openPool(deps: PoolDeps, options: Omit<PoolOptions, "url" | "pooled">): Pool {
  const { databaseUrl, databaseDirectUrl } = deps.config;
  const pooled = databaseDirectUrl !== null && databaseUrl !== null;
  const pool = makePool({ url: pooled ? databaseUrl : deps.databaseUrl, pooled, ...options });
  deps.shutdown.onShutdown(`pool ${options.purpose}`, () => pool.end());
  return pool;
}

export function openApplyPool(deps: PoolDeps): Pool {
  return openPool(deps, APPLY_POOL);
}

/** Mode of each configured source. */
export function modesOf(config: Pick<Config, "sources">): ReadonlyMap<string, Mode> {
  return new Map(config.sources.map((source) => [source.sourceId, source.mode]));
}

/**
 * Makes what applies input of the configured sources. Each committed batch of decisions is counted, announced and
 * handed on.
 */
export function composeApply(deps: RoleDeps, pool: Pool): Apply {
  const { config, logger, metrics, clock, shutdown, onDecisions } = deps;
  const announcer = makeAnnouncer({ pool, clock });
  shutdown.onShutdown("announcements", () => announcer.close());
  const meter = meterDecisions(metrics, clock, onDecisions);
  return makeApply({
    pool,
    logger,
    modes: modesOf(config),
    onDecisions(decisions) {
      announcer.announce(decisions);
      meter(decisions);
    },
  });
}

/** The limits that a budget keeps to, as configured. */
function limitsOf({ rateSharePercent, pollPace, pollIntervalSeconds }: Config): Omit<BudgetOptions, "clock"> {
  const listIntervalMs = pollPace === "request" ? pollIntervalSeconds * 1_000 : undefined;
  return { share: rateSharePercent / 100, listIntervalMs };
}

/**
 * Makes the function that gives each source its budget. Limits apply to an organization and mode, all keys together
 * (spec, "Limits").
 */
export function makeBudgets(deps: Pick<RoleDeps, "config" | "clock">): (source: SourceConfig) => Budget {
  const { clock, config } = deps;
  const budgets = new Map<string, Budget>();
  return ({ organization, mode }) => {
    const owner = JSON.stringify([organization, mode]);
    const budget = budgets.get(owner) ?? makeBudget({ clock, ...limitsOf(config) });
    budgets.set(owner, budget);
    return budget;
  };
}

const TURN_LOOK_MS = 10_000;

/**
 * Has `work` done by one of all processes, once in `turnMs`: nobody gives the lease back. What fails is tried again in
 * a later turn.
 */
export function runExclusively(
  { clock, logger, shutdown }: RoleDeps,
  { name, pool, turnMs }: { readonly name: string; readonly pool: Pool; readonly turnMs: number },
  work: (turn: { readonly lease: Lease; readonly signal: AbortSignal }) => Promise<void>,
): void {
  const loop = makeLoop({
    async run(signal) {
      const lease = await acquireLease(pool, { name, holder: HOLDER, ttlMs: turnMs });
      if (lease !== undefined) await work({ lease, signal });
    },
    everyMs: TURN_LOOK_MS,
    onError: (error) => logger.warn({ err: error, turn: name }, "what one process does in turn failed"),
    clock,
  });
  shutdown.onShutdown(name, loop.stop);
  loop.start();
}

/** Opens the queue of events, which ends with the process. */
export async function openQueue(deps: RoleDeps): Promise<ApplyQueue> {
  const { config, databaseUrl, logger, shutdown } = deps;
  // Only here: a poller never needs BullMQ, which is a third of its memory.
  const { makeApplyQueue } = await import("../queue/applyQueue.ts");
  const mirrorId = await withClient({ connectionString: databaseUrl }, readMirrorId);
  const queue = await makeApplyQueue({ databaseUrl, redisUrls: config.redisUrls, mirrorId, logger });
  shutdown.onShutdown("queue", () => queue.close());
  return queue;
}
