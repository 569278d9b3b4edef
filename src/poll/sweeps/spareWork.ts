import { formatInstant } from "../../domain/order/instant.ts";
import { LeaseLostError } from "../../database/leases.sql.ts";
import { failureOf } from "../../domain/source/errors.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { WalkTooLargeError } from "../cycle/errors.ts";
import type { Step, SweepRunner } from "./sweepRunner.ts";
import type { CommittedWindow } from "./walkStore.ts";

type TakeStep = (runner: SweepRunner) => Promise<Step | undefined>;

interface SpareTime {
  readonly signal: AbortSignal;
  /** On the monotonic clock: when the next cycle is due. */
  readonly dueMs: number;
}

export interface SpareWork {
  /**
   * Gives the sweeps the time that is left until the next cycle, page by page, in order. Returns the last failure: it
   * belongs to one sweep, which then pauses for a while, and the others continue. Throws what concerns all: an abort, a
   * lost lease, a refused key.
   */
  run(context: SpareTime, take: TakeStep): Promise<unknown>;
}

/** Per cycle, far more than the rate allows. One page is always read, so that a busy source makes progress, too. */
const PAGES_MAX = 1_000;
const PAUSE_MAX_MS = 60_000;

interface Worker {
  readonly runner: SweepRunner;
  failures: number;
  pausedUntilMs: number;
}

export function makeSpareWork(deps: PollDeps, runners: readonly SweepRunner[]): SpareWork {
  const { clock } = deps;
  const workers = runners.map((runner) => makeWorker(runner));

  async function run(context: SpareTime, take: TakeStep): Promise<unknown> {
    let failure: unknown;
    for (let pages = 0; pages < PAGES_MAX; pages += 1) {
      if (pages > 0 && clock.monotonicMs() >= context.dueMs) break;
      const next = await takeTurn(context, take);
      if (next === "idle") break;
      failure = next.failure ?? failure;
    }
    return failure;
  }

  async function takeTurn(
    context: SpareTime,
    take: TakeStep,
  ): Promise<"idle" | { readonly failure?: unknown }> {
    for (const worker of workers) {
      if (worker.pausedUntilMs > clock.monotonicMs()) continue;
      try {
        const step = await take(worker.runner);
        if (step === undefined) continue;
        worker.failures = 0;
        if (step.window !== undefined) report(worker.runner, step.window);
        return {};
      } catch (error) {
        if (concernsAll(error, context.signal)) throw error;
        // A shorter window is started at the next turn.
        if (error instanceof WalkTooLargeError) return {};
        pause(worker);
        return { failure: error };
      }
    }
    return "idle";
  }

  function pause(worker: Worker): void {
    worker.failures += 1;
    const pauseMs = deps.intervalSeconds * 1_000 * 2 ** (worker.failures - 1);
    worker.pausedUntilMs = clock.monotonicMs() + Math.min(pauseMs, PAUSE_MAX_MS);
  }

  function report(runner: SweepRunner, { window, progress }: CommittedWindow): void {
    if (runner.name !== "backfill" && runner.name !== "requested") return;
    const [since, until] = [formatInstant(window.since), formatInstant(window.until)];
    const safeThrough = progress.safeThrough === undefined ? null : formatInstant(progress.safeThrough);
    deps.logger.info({ since, until, safe_through: safeThrough }, "read a part of the history");
  }

  return { run };
}

function makeWorker(runner: SweepRunner): Worker {
  return { runner, failures: 0, pausedUntilMs: Number.NEGATIVE_INFINITY };
}

function concernsAll(error: unknown, signal: AbortSignal): boolean {
  return signal.aborted || error instanceof LeaseLostError || failureOf(error) === "key_refused";
}
