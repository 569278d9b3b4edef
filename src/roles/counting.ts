import type { Pool } from "../database/database.ts";
import { recordRequests } from "../sources/providerRequests.sql.ts";
import type { SpentRequests } from "../sources/providerRequests.sql.ts";
import { makeBudget } from "../provider/budget.ts";
import type { Budget } from "../provider/budget.ts";
import type { SourceConfig } from "../runtime/config/config.ts";
import { recordCalls } from "../receive/webhookCalls.sql.ts";
import type { CallCount, CallOutcome } from "../receive/webhookCalls.sql.ts";
import type { CallEnd } from "../receive/receiver.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";
import type { RoleDeps } from "./role.ts";

const CALLS_FLUSH_EVERY_MS = 5_000;

const OUTCOMES: Readonly<Partial<Record<CallEnd["outcome"], CallOutcome>>> = {
  received: "accepted",
  duplicate: "accepted",
  failed: "not_stored",
  body_already_read: "not_stored",
  overloaded: "not_stored",
  unavailable: "not_stored",
  // Only calls of configured sources are counted: this one has no secret.
  not_found: "no_secret",
};

/**
 * Makes the function that counts calls of the webhook addresses. The counts are recorded every few seconds, and at the
 * end, for all processes to read.
 */
export function makeCallCounter(
  deps: Pick<RoleDeps, "clock" | "logger" | "shutdown">,
  pool: Pool,
): (end: CallEnd) => void {
  const tally = makeTally<CallCount>({
    keyOf: ({ sourceId, outcome }) => `${sourceId} ${outcome}`,
    // A literal, not a spread, which is three times as slow: this runs for each call.
    join: ({ sourceId, outcome, calls }, count) => ({
      sourceId,
      outcome,
      calls: calls + count.calls,
    }),
    write: (counts) => recordCalls(pool, counts),
  });
  saveTally(deps, { name: "webhook calls", everyMs: CALLS_FLUSH_EVERY_MS, flush: tally.flush });
  return ({ sourceId, outcome, reason }) => {
    tally.add({ sourceId, outcome: nameOutcome(outcome, reason), calls: 1 });
  };
}

/** A call without a signature comes from a stranger, or from `doctor`: it says nothing about the secret. */
function nameOutcome(outcome: CallEnd["outcome"], reason: CallEnd["reason"]): CallOutcome {
  if (reason === "signature_missing") return "other";
  if (reason === "timestamp_outside_tolerance") return "wrong_time";
  if (reason !== undefined) return "wrong_signature";
  return OUTCOMES[outcome] ?? "other";
}

const USAGE_FLUSH_EVERY_MS = 20_000;

interface Shared {
  readonly budget: Budget;
  readonly sourceId: string;
  /** Replaces the priority of each request. */
  readonly purpose?: string | undefined;
}

/**
 * Makes the function that gives each source its budget. Limits apply to an organization and mode, all keys together (spec,
 * "Limits"). What a source sends is counted; the counts are recorded periodically, and at the end.
 */
export function makeBudgets(
  deps: Pick<RoleDeps, "config" | "clock" | "logger" | "shutdown">,
  pool: Pool,
  { shares, purpose }: Pick<Parameters<typeof makeBudget>[0], "shares"> & { purpose?: string },
): (source: SourceConfig) => Budget {
  const { clock, config } = deps;
  const { track, flush } = trackRequestUsage(pool);
  saveTally(deps, { name: "request usage", everyMs: USAGE_FLUSH_EVERY_MS, flush });
  const budgets = new Map<string, Budget>();
  return ({ sourceId, organization, mode }) => {
    const owner = JSON.stringify([organization, mode]);
    const budget =
      budgets.get(owner) ?? makeBudget({ clock, share: config.rateShare, ...(shares && { shares }) });
    budgets.set(owner, budget);
    return track({ budget, sourceId, purpose });
  };
}

/** Views of budgets that count what each source sends, and what records the counts of all sources. @internal */
export function trackRequestUsage(pool: Pool) {
  const { add, flush } = makeTally<SpentRequests>({
    keyOf: ({ sourceId, policy, purpose }) => `${policy} ${purpose} ${sourceId}`,
    join: (sum, count) => ({
      ...sum,
      requests: sum.requests + count.requests,
      refused: sum.refused + count.refused,
    }),
    write: (counts) => recordRequests(pool, counts),
  });
  const track = ({ budget, sourceId, ...shared }: Shared): Budget => ({
    ...budget,
    async acquire(request) {
      const permit = await budget.acquire(request);
      const count = { sourceId, policy: request.policy, purpose: shared.purpose ?? request.priority };
      add({ ...count, requests: 1, refused: 0 });
      return {
        ...permit,
        learn(lesson) {
          if (lesson.refusedForMs !== null) add({ ...count, requests: 0, refused: 1 });
          return permit.learn(lesson);
        },
      };
    },
  });
  return { track, flush };
}

/** Counts that a process accumulates and writes to the database periodically. */
interface Tally<Count> {
  readonly add: (count: Count) => void;
  /** Writes what was added since the last time; what cannot be written is kept for the next. */
  readonly flush: () => Promise<void>;
}

function makeTally<Count>(deps: {
  readonly keyOf: (count: Count) => string;
  /** Both counts together; `sum` has the key of `count`. */
  readonly join: (sum: Count, count: Count) => Count;
  readonly write: (counts: readonly Count[]) => Promise<void>;
}): Tally<Count> {
  const { keyOf, join, write } = deps;
  let sums = new Map<string, Count>();

  function add(count: Count): void {
    const key = keyOf(count);
    const sum = sums.get(key);
    sums.set(key, sum === undefined ? count : join(sum, count));
  }

  async function flush(): Promise<void> {
    const counts = [...sums.values()];
    if (counts.length === 0) return;
    sums = new Map();
    try {
      await write(counts);
    } catch (error) {
      counts.forEach(add);
      throw error;
    }
  }

  return { add, flush };
}

/** Flushes a tally every `everyMs`, and at the end. */
function saveTally(
  { clock, logger, shutdown }: Pick<RoleDeps, "clock" | "logger" | "shutdown">,
  saved: { name: string; everyMs: number } & Pick<Tally<never>, "flush">,
): void {
  const { name, everyMs, flush } = saved;
  const onError = (error: unknown) => {
    logger.debug({ err: error, name }, "could not write down what was counted; it is kept");
  };
  const loop = makeLoop({ run: flush, everyMs, onError, pausesFirst: true, clock });
  loop.start();
  shutdown.onShutdown(name, async () => {
    await loop.stop();
    await flush().catch(onError);
  });
}
