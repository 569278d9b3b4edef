import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";
import { acquireLease, renewLease } from "../database/leases.sql.ts";
import {
  removeChanges,
  removeCoverage,
  removeCoverageThatStayed,
  removeDelivered,
  removeEvents,
  removeEventsThatStayed,
  removeHistory,
  removeSuperseded,
  removeUnnamedEvents,
  removeUnnamedEventsThatStayed,
  removeUnnamedReads,
} from "../retention/retention.sql.ts";
import type { RetentionRule } from "../retention/retention.sql.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";
import type { Config } from "../runtime/config/config.ts";
import { resolveSince } from "../runtime/config/duration.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { HOLDER, openPool } from "./role.ts";
import type { RoleDeps } from "./role.ts";

const LOOK_INTERVAL_MS = 10_000;
/**
 * The lease is never released: one worker per interval removes old rows. A pass renews it with each step, so the next
 * pass starts this long after its end.
 */
const TURN_MS = 3_600_000;
/** Windows are not needed beyond their proof: long enough to see what was read the day before. */
const COVERAGE_KEPT_FOR = "P2D";
/** Long enough to explain a message that was given up after three days. */
const OUTGOING_KEPT_FOR = "P7D";
/** Input about no order may hold personal data that no erasure finds: it goes, even if events are kept for ever. */
const UNNAMED_KEPT_FOR = "P30D";
/** Rows per statement, with a pause after it: removal must not slow down receiving and applying. */
const STEP_ROWS = 2_000;
const STEP_PAUSE_MS = 200;
/** Of the rows that had to stay, a pass examines this many steps again and leaves the rest to the next passes. */
const AGAIN_STEPS_MAX = 10;

const RETENTION_POOL = { purpose: "retention", max: 1, statementTimeoutMs: 20_000 };

/** Removes what is older than configured. */
export function startRetention(deps: RoleDeps): void {
  const { config, clock, logger, shutdown } = deps;
  const pool = openPool(deps, RETENTION_POOL);
  const rules = listRules(config);

  async function takeTurns(signal: AbortSignal): Promise<void> {
    const lease = await acquireLease(pool, { name: "retention", holder: HOLDER, ttlMs: TURN_MS });
    if (lease === undefined) return;
    const renew = () => renewLease(pool, lease, { ttlMs: TURN_MS });
    for (const { keptFor, ...rule } of rules)
      await removeOld(
        { pool, clock, logger, signal, renew },
        { ...rule, cutoff: resolveSince(keptFor, clock.now()) },
      );
  }
  const loop = makeLoop({
    run: takeTurns,
    everyMs: LOOK_INTERVAL_MS,
    onError: (error) => logger.warn({ err: error }, "retention failed; it is tried again"),
    clock,
  });
  shutdown.onShutdown("retention", loop.stop);
  loop.start();
}

interface Rule {
  readonly what: string;
  readonly keptFor: string;
  readonly rule: RetentionRule;
  readonly stepsMax?: number;
}

/** First what every worker may remove; changes before the history that they refer to. */
function listRules({ changesKeptFor, historyKeptFor, eventsKeptFor }: Config): Rule[] {
  const stepsMax = AGAIN_STEPS_MAX;
  const unnamed = { what: "input about no order", keptFor: eventsKeptFor ?? UNNAMED_KEPT_FOR };
  const all = [
    { what: "coverage", keptFor: COVERAGE_KEPT_FOR, rule: removeCoverageThatStayed, stepsMax },
    { what: "coverage", keptFor: COVERAGE_KEPT_FOR, rule: removeCoverage },
    { what: "delivered outgoing webhooks", keptFor: OUTGOING_KEPT_FOR, rule: removeDelivered },
    { what: "changes", keptFor: changesKeptFor, rule: removeChanges },
    { what: "history", keptFor: historyKeptFor, rule: removeSuperseded },
    { what: "history", keptFor: historyKeptFor, rule: removeHistory },
    { ...unnamed, rule: removeUnnamedEventsThatStayed, stepsMax },
    { ...unnamed, rule: removeUnnamedEvents },
    { ...unnamed, rule: removeUnnamedReads },
    { what: "events", keptFor: eventsKeptFor, rule: removeEventsThatStayed, stepsMax },
    { what: "events", keptFor: eventsKeptFor, rule: removeEvents },
  ];
  return all.flatMap(({ keptFor, ...rest }) => (keptFor === null ? [] : [{ ...rest, keptFor }]));
}

interface Removal {
  readonly what: string;
  readonly rule: RetentionRule;
  readonly cutoff: Instant;
  /** Rows of one step. */
  readonly limit?: number;
  readonly stepsMax?: number;
}

/**
 * Removes what a rule says is older than `cutoff`, in small steps; returns how many rows it examined and removed.
 * `renew` extends the lease; the pass ends when it returns false.
 */
export async function removeOld(
  deps: { pool: Pool; clock: Clock; logger: Logger; signal: AbortSignal; renew: () => Promise<boolean> },
  { what, rule, cutoff, limit = STEP_ROWS, stepsMax = Infinity }: Removal,
): Promise<{ removed: number; looked: number }> {
  const { pool, clock, logger, signal, renew } = deps;
  let removed = 0;
  let looked = 0;
  for (let steps = 1; !signal.aborted; steps += 1) {
    const step = await rule(pool, { cutoff, limit });
    removed += step.removed;
    looked += step.looked;
    if (step.over || steps >= stepsMax || !(await renew())) break;
    await clock.sleep(STEP_PAUSE_MS, signal);
  }
  if (removed > 0) logger.info({ what, rows: removed }, "removed what was kept long enough");
  return { removed, looked };
}
