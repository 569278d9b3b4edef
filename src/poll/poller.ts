import { schedule, type ScheduledTask } from "node-cron";
import { ConfigurationError, OrderMirrorError, UnavailableError } from "../domain/errors.ts";
import { classifyDatabaseError, isDatabaseAway } from "../database/databaseErrors.ts";
import { failureOf } from "../domain/source/errors.ts";
import { LeaseLostError } from "../database/leases.sql.ts";
import { resolveSince } from "../config/duration.ts";
import { withSignals } from "../process/abort.ts";
import { makeLoop } from "../process/loop.ts";
import { makeCycle } from "./cycle.ts";
import { countNothing, type CycleCounts } from "./cycleReads.ts";
import { makeLeadership } from "./leadership.ts";
import type { PollDeps } from "./pollDeps.ts";

/*
 * Keeps the mirror of one source complete by reading the provider's list. Of several processes one leads
 * (leadership.ts), and every interval it runs a cycle (cycle.ts). Everything that a cycle needs is in the database, so
 * that another process continues where one has ended. Start at `makePoller`.
 */

/**
 * The result of runOnce:
 * - `polled`: a cycle ran;
 * - `paused`: a person has paused the source;
 * - `not_leading`: another process leads;
 * - `not_due`: the next cycle starts in `waitMs`;
 * - `lease_lost`: another process took over in the middle;
 * - `failed`: `error` says why, or what stopped the head sweep; it will be retried in `waitMs` at the earliest.
 */
interface CycleReport extends CycleCounts {
  readonly outcome: "polled" | "paused" | "not_leading" | "not_due" | "lease_lost" | "failed";
  readonly waitMs: number;
  readonly error: unknown;
}

export interface Poller {
  /**
   * Runs one cycle, if this process leads and one is due. Continues from the stored cursor, so calling it too often or
   * too rarely does no harm; a call during another one gets its report. Rejects only with the reason of `signal`, or
   * with PollerClosedError.
   */
  runOnce(signal?: AbortSignal): Promise<CycleReport>;
  /** Calls runOnce whenever a cycle is due, until `close`. */
  start(): void;
  /** Aborts the work under way and gives up the lease. Resolves within about a second. */
  close(): Promise<void>;
}

const LEASE_TTL_MS = 15_000;
const LOOK_MS = 5_000;
const TICK = "*/5 * * * * *";
const ignore = () => undefined;
/** A tick only checks whether something is due: late and missed ticks are harmless. */
const SILENT = { info: ignore, warn: ignore, error: ignore, debug: ignore };
/** Longer waits would only delay the recovery; the client has also waited between its own attempts. */
const BACKOFF_MAX_MS = 60_000;
/** Longer pauses would not help our own database, and after a failover it is available again immediately. */
const DATABASE_BACKOFF_MAX_MS = 5_000;
const CLOSE_WAIT_MS = 1_000;

/** Polls one source. Throws ConfigurationError if `backfillSince` is invalid or in the future. */
export function makePoller(deps: PollDeps): Poller {
  const { source, clock } = deps;
  const name = `poll:${source.sourceId}`;
  const closing = new AbortController();
  const { attempt, resign, dueInMs } = makeAttempt(deps, name);
  // It looks by itself, too: a cron waits for an instant of the wall clock, which may be set back.
  const loop = makeLoop({
    async run() {
      const waitMs = dueInMs();
      if (waitMs > 0) return Math.min(waitMs, LOOK_MS);
      await runOnce();
      return Math.min(Math.max(0, dueInMs()), LOOK_MS);
    },
    everyMs: LOOK_MS,
    onError: () => undefined,
    clock,
  });
  let ticks: ScheduledTask | undefined;
  let running: Promise<CycleReport> | undefined;

  function runOnce(signal?: AbortSignal): Promise<CycleReport> {
    running ??= withSignals([signal, closing.signal], attempt).finally(() => (running = undefined));
    return running;
  }

  async function close(): Promise<void> {
    closing.abort(new PollerClosedError("the poller is closed"));
    await ticks?.destroy();
    const over = Promise.allSettled([running, loop.stop()]).then(resign);
    await Promise.race([over, clock.sleep(CLOSE_WAIT_MS)]);
  }

  return {
    runOnce,
    start() {
      ticks ??= schedule(TICK, loop.wake, { name, logger: SILENT });
      loop.start();
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
  const intervalMs = deps.intervalSeconds * 1_000;
  checkSince(deps);
  const leadership = makeLeadership({ ...deps, name, ttlMs: leaseTtlMs });
  const runCycle = makeCycle(deps);
  const resign = () =>
    leadership.resign().catch((error: unknown) => {
      logger.warn({ err: error }, "could not give up the lease; it will expire");
    });
  const log = makePollLog(logger);
  let failures = 0;
  let notBeforeMs = Number.NEGATIVE_INFINITY;
  const dueInMs = () => notBeforeMs - clock.monotonicMs();

  function putOff(outcome: CycleReport["outcome"], waitMs: number, error?: unknown): CycleReport {
    notBeforeMs = clock.monotonicMs() + waitMs;
    return { ...countNothing(), outcome, waitMs, error };
  }

  async function attempt(signal: AbortSignal): Promise<CycleReport> {
    if (dueInMs() > 0) return putOff("not_due", dueInMs());
    try {
      const term = await leadership.lead();
      if (term === undefined) return putOff("not_leading", leaseTtlMs / 3);
      const result = await withSignals([signal, term.signal], (inTerm) => runCycle({ term, signal: inTerm }));
      if (result.kind === "not_due") return putOff("not_due", result.waitMs);
      if (result.kind === "polled") return report(result);
      // Another process may lead that is configured otherwise, or as soon as the source is resumed.
      await resign();
      if (result.kind === "foreign") await deps.assertOurs?.();
      else log("paused");
      return putOff("paused", Math.min(LOOK_MS, intervalMs));
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ConfigurationError || error instanceof LeaseLostError) await resign();
      return recover(error);
    }
  }

  function report({ counts, dueMs }: { counts: CycleCounts; dueMs: number }): CycleReport {
    const { headError: error, spareError } = counts;
    // A list that answered is not away, and what failed may be one window: its next turn comes as usual.
    if (error !== undefined && counts.requests === 0) return { ...recover(error), ...counts };
    failures = 0;
    const waitMs = Math.max(0, dueMs - clock.monotonicMs());
    if (error !== undefined) log({ error, waitMs });
    else log(spareError === undefined ? "polls" : { error: spareError, waitMs, isSpare: true });
    return { ...putOff(error === undefined ? "polled" : "failed", waitMs, error), ...counts };
  }

  function recover(error: unknown): CycleReport {
    if (error instanceof LeaseLostError) return putOff("lease_lost", 0, error);
    failures += 1;
    const waitMs = backoffMs(error, { failures, intervalMs });
    log({ error, waitMs });
    return putOff("failed", waitMs, error);
  }

  return { attempt, resign, dueInMs };
}

function backoffMs(
  error: unknown,
  { failures, intervalMs }: { failures: number; intervalMs: number },
): number {
  const retry = error instanceof OrderMirrorError ? error.retry : "later";
  const longestMs = Math.max(BACKOFF_MAX_MS, intervalMs);
  // A problem that only a person can fix is retried slowly from the start; one redirect is none.
  const isHopeless = error instanceof ConfigurationError || failureOf(error) === "key_refused";
  if (isHopeless) return longestMs;
  const isOurs = error instanceof UnavailableError || isDatabaseAway(error);
  const growingMs = Math.min(intervalMs * 2 ** (failures - 1), isOurs ? DATABASE_BACKOFF_MAX_MS : longestMs);
  return typeof retry === "object" ? Math.max(retry.afterMs, growingMs) : growingMs;
}

interface PollFailure {
  readonly error: unknown;
  readonly waitMs: number;
  /** The head sweep came to its end: only what is read beside it failed. */
  readonly isSpare?: boolean;
}

/** Logs each problem once, and once that polling works again: a line for every attempt would bury the others. */
function makePollLog(logger: PollDeps["logger"]) {
  let last = "polls";
  return (state: "polls" | "paused" | PollFailure): void => {
    const next = typeof state === "string" ? state : `${state.isSpare ? "spare " : ""}${nameOf(state.error)}`;
    if (next === last) return;
    last = next;
    if (state === "polls") return logger.info("polling works again");
    if (state === "paused") return logger.info("polling is paused");
    const { error, waitMs, isSpare = false } = state;
    const fields = { wait_ms: waitMs, err: error };
    if (isSpare)
      return logger.warn(fields, "reading outside the head sweep failed; it will be retried later");
    const isExpected = error instanceof OrderMirrorError || classifyDatabaseError(error) === "transient";
    const level = isExpected && failureOf(error) !== "key_refused" ? "warn" : "error";
    logger[level](fields, "polling failed; it resumes from the same place");
  };
}

function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const failure = failureOf(error);
  if (failure !== undefined) return failure;
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? `${error.name} ${code}` : error.name;
}

/** The reason for work aborted by closing the poller. @internal */
export class PollerClosedError extends OrderMirrorError {
  override readonly name = "PollerClosedError";
  override readonly retry = "never";
}
