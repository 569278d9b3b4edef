import { ApplyInterruptedError } from "../../apply/errors.ts";
import { ConfigurationError, OrderMirrorError } from "../../domain/errors.ts";
import { isDatabaseAway } from "../../database/databaseErrors.ts";
import { LeaseLostError } from "../../database/leases.sql.ts";
import { readPause } from "../../sources/sources.sql.ts";
import { resolveSince } from "../../runtime/config/duration.ts";
import { makeCycle } from "../cycle/cycle.ts";
import type { CycleCounts } from "../cycle/runSweeps.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { PollerClosedError } from "../cycle/errors.ts";
import { NOTHING_READ } from "../cycle/readWindow.ts";
import { makeLeadership } from "./leadership.ts";
import type { Leadership } from "./leadership.ts";
import { makePollLog } from "./pollLog.ts";
import { makeTicks } from "./ticks.ts";
import { withSignals } from "../../runtime/lifecycle/abort.ts";

/*
 * Three objects precede a request:
 *
 *   Poller       ticks every second, runs one cycle at a time, and waits as long as a failure asks
 *   Cycle        what a leader does once in an interval: clock, state, sweeps, tasks
 *   SweepRunner  reads the windows that one sweep names, a page at a time
 *
 * A call of runOnce:
 *
 *   idle ──before its time──► not_due
 *    │ the source is paused ─► paused ────────────────────┐
 *    │ another one leads ────► not_leading ───────────────┤ looked at again
 *    ▼                                                    │ after waitMs
 *   leading: Cycle.run ──the interval is not over──► not_due
 *    │    fast window ► proof ► refetches ► what can wait, each step one page:
 *    │      SweepRunner.step: next window ► page ► page ► … ► window committed
 *    ├──all done────► polled        ├──error──► failed, backoff
 *    └──lease gone──► lease_lost: the next leader goes on with the stored walk
 */

/**
 * The result of runOnce:
 * - `polled`: a cycle ran;
 * - `paused`: a person has paused the source;
 * - `not_leading`: another process leads;
 * - `not_due`: the next cycle starts in `waitMs`;
 * - `lease_lost`: another process took over in the middle;
 * - `failed`: `error` says why; it will be retried in `waitMs` at the earliest.
 */
interface CycleReport extends CycleCounts {
  readonly outcome: "polled" | "paused" | "not_leading" | "not_due" | "lease_lost" | "failed";
  readonly waitMs: number;
  readonly error: unknown;
}

export interface Poller {
  /**
   * Runs one cycle, if this process leads and one is due. Continues from the stored cursor, so calling it too often or too
   * rarely does no harm; a call during another one gets its report. Rejects only with the reason of `signal`, or with
   * PollerClosedError.
   */
  runOnce(signal?: AbortSignal): Promise<CycleReport>;
  /** Checks every second whether a cycle is due, and then calls runOnce, until `close`. */
  start(): void;
  /** Aborts the work under way and gives up the lease. Resolves within about a second. */
  close(): Promise<void>;
}

const LEASE_TTL_MS = 15_000;
const TICK_MS = 1_000;
/** Longer waits would only delay the recovery; the client has also waited between its own attempts. */
const BACKOFF_MAX_MS = 60_000;
/** Longer pauses would not help our own database, and after a failover it is available again immediately. */
const DATABASE_BACKOFF_MAX_MS = 5_000;
const CLOSE_WAIT_MS = 1_000;
/** How often a paused source is checked. */
const PAUSE_LOOK_MS = 5_000;

/** Polls one source. Throws ConfigurationError if `backfillSince` is invalid or in the future. */
export function makePoller(deps: PollDeps): Poller {
  const { source, clock, ticks = makeTicks(deps) } = deps;
  const name = `poll:${source.sourceId}`;
  const closing = new AbortController();
  const { attempt, resign, dueInMs } = makeAttempt(deps, name);
  let endTicks: (() => Promise<void>) | undefined;
  let ticking = false;
  let running: Promise<CycleReport> | undefined;

  function runOnce(signal?: AbortSignal): Promise<CycleReport> {
    running ??= withSignals([signal, closing.signal], attempt).finally(() => (running = undefined));
    return running;
  }

  function tick(): boolean {
    if (ticking || dueInMs() > TICK_MS) return false;
    ticking = true;
    void runWhenDue();
    return true;
  }

  async function runWhenDue(): Promise<void> {
    try {
      // Due before the next tick: the interval is not rounded up to whole ticks.
      await clock.sleep(Math.max(0, dueInMs()), closing.signal);
      // If the database's clock says "not yet", a later tick tries again.
      await runOnce();
    } catch (error) {
      if (!closing.signal.aborted) throw error;
    } finally {
      ticking = false;
    }
  }

  async function close(): Promise<void> {
    closing.abort(new PollerClosedError("the poller is closed"));
    await endTicks?.();
    const over = Promise.allSettled([running]).then(resign);
    await Promise.race([over, clock.sleep(CLOSE_WAIT_MS)]);
  }

  return {
    runOnce,
    start() {
      endTicks ??= ticks.add(tick);
    },
    close,
  };
}

/** Throws for an invalid value now instead of in the first cycle; before a future one, nothing would ever be proved. */
function checkSince({ backfillSince, clock }: PollDeps): void {
  const now = clock.now();
  if (resolveSince(backfillSince, now) <= now) return;
  throw new ConfigurationError("BACKFILL_SINCE is in the future by this machine's clock.", {
    fix: "Name a time in the past, or correct the clock.",
  });
}

/** Makes one attempt at a cycle; returns when the next one makes sense. */
function makeAttempt(deps: PollDeps, name: string) {
  const { clock, logger, leaseTtlMs = LEASE_TTL_MS } = deps;
  checkSince(deps);
  const leadership = makeLeadership({ ...deps, name, ttlMs: leaseTtlMs });
  const cycle = makeCycle(deps);
  const resign = () => resignFrom(leadership, logger);
  const log = makePollLog(logger);
  let failures = 0;
  let notBeforeMs = Number.NEGATIVE_INFINITY;
  /** When the next cycle after one of this process is due. */
  let nextMs = Number.NEGATIVE_INFINITY;
  /** The state of the source in which it was found to be ours and not paused, while this process leads. */
  let checkedAs: string | undefined;

  const dueInMs = () => Math.max(notBeforeMs, nextMs) - clock.monotonicMs();

  function putOff(outcome: CycleReport["outcome"], waitMs: number, error?: unknown): CycleReport {
    notBeforeMs = clock.monotonicMs() + waitMs;
    return { ...NOTHING_DONE, outcome, waitMs, error };
  }

  async function attempt(signal: AbortSignal, hasChanged = false): Promise<CycleReport> {
    const waitMs = notBeforeMs - clock.monotonicMs();
    if (waitMs > 0) return putOff("not_due", waitMs);
    try {
      const polledAs = checkedAs ?? (await checkSource(deps));
      checkedAs = undefined;
      if (polledAs === undefined) return await rest();
      log.pausedIs(false);
      const term = await leadership.lead();
      if (term === undefined) return putOff("not_leading", leaseTtlMs / 3);
      const result = await withSignals([signal, term.signal], (inTerm) =>
        cycle.run({ term, polledAs, signal: inTerm }),
      );
      if (result.kind === "source_changed") {
        return hasChanged ? putOff("not_due", TICK_MS) : await attempt(signal, true);
      }
      checkedAs = polledAs;
      if (result.kind === "not_due") return putOff("not_due", result.waitMs);
      failures = 0;
      nextMs = result.dueMs;
      log.succeeded(result.counts, deps.client.providerClock.disagreementSeconds());
      return { ...result.counts, outcome: "polled", waitMs: 0, error: undefined };
    } catch (error) {
      signal.throwIfAborted();
      // The source is another's: a process that is configured for it may lead.
      if (error instanceof ConfigurationError) await resign();
      return recover(error);
    }
  }

  async function rest(): Promise<CycleReport> {
    log.pausedIs(true);
    await resign();
    return putOff("paused", Math.min(PAUSE_LOOK_MS, deps.intervalSeconds * 1_000));
  }

  function recover(error: unknown): CycleReport {
    if (error instanceof LeaseLostError) return { ...NOTHING_DONE, outcome: "lease_lost", waitMs: 0, error };
    failures += 1;
    const waitMs = backoffMs(error, { failures, intervalMs: deps.intervalSeconds * 1_000 });
    log.failed(error, waitMs);
    return putOff("failed", waitMs, error);
  }

  return { attempt, resign, dueInMs };
}

async function resignFrom({ resign }: Leadership, logger: PollDeps["logger"]): Promise<void> {
  await resign().catch((error: unknown) => {
    logger.warn({ err: error }, "could not give up the lease; it will expire");
  });
}

/** The state of the source, if it may be polled; undefined while it is paused. Throws ConfigurationError. */
async function checkSource({ source, pool, assertOurs }: PollDeps): Promise<string | undefined> {
  const { paused, polledAs } = await readPause(pool, source.sourceId);
  if (paused) return undefined;
  await assertOurs?.();
  return polledAs;
}

const NOTHING_DONE: CycleCounts = {
  ...NOTHING_READ,
  windows: 0,
  unproved: 0,
  refetches: 0,
  spareError: undefined,
};

function backoffMs(
  error: unknown,
  { failures, intervalMs }: { failures: number; intervalMs: number },
): number {
  const retry = error instanceof OrderMirrorError ? error.retry : "later";
  const longestMs = Math.max(BACKOFF_MAX_MS, intervalMs);
  // A problem that only a person can fix is retried slowly from the start.
  if (retry === "never") return longestMs;
  const growingMs = Math.min(
    intervalMs * 2 ** (failures - 1),
    isOurs(error) ? DATABASE_BACKOFF_MAX_MS : longestMs,
  );
  return typeof retry === "object" ? Math.max(retry.afterMs, growingMs) : growingMs;
}

/** Whether our own database is the cause. */
function isOurs(error: unknown): boolean {
  return error instanceof ApplyInterruptedError || isDatabaseAway(error);
}
