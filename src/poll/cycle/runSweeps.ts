import { addFigures } from "../../domain/figures.ts";
import { readGaps } from "../ledger/coverage.sql.ts";
import type { CycleBegin } from "../ledger/pollState.sql.ts";
import type { Term } from "../leader/leadership.ts";
import { NOTHING_REFETCHED, refetchOrders } from "../sweeps/refetch.ts";
import { makeRequestedSweep } from "../sweeps/requestedPeriod.ts";
import { makeSpareWork } from "../sweeps/spareWork.ts";
import { makeSweepRunner } from "../sweeps/sweepRunner.ts";
import type { Step, SweepRunner } from "../sweeps/sweepRunner.ts";
import { makeBackfillSweep, makeDelayedSweep, makeFastSweep } from "../sweeps/sweeps.ts";
import type { Sweep, SweepView } from "../sweeps/sweeps.ts";
import { makeVerifySweep } from "../sweeps/verifySweep.ts";
import type { CommittedWindow } from "../sweeps/walkStore.ts";
import type { PollDeps } from "./deps.ts";
import { WalkTooLargeError } from "./errors.ts";
import type { AwaitTurn } from "./pace.ts";
import { makeReadPage, NOTHING_READ } from "./readWindow.ts";
import type { ReadCounts, ShownPage } from "./readWindow.ts";

/** What a cycle read, and the effect. */
export interface CycleCounts extends ReadCounts {
  /** Windows read to their end. */
  readonly windows: number;
  /** The number of them that could not be proved complete. */
  readonly unproved: number;
  readonly refetches: number;
  /** An error outside the fast window, which was read anyway. */
  readonly spareError: unknown;
}

export interface CycleContext {
  readonly term: Term;
  readonly signal: AbortSignal;
  readonly state: Extract<CycleBegin, { readonly kind: "begun" }>["state"];
  /** On the monotonic clock: when the next cycle is due. */
  readonly dueMs: number;
}

/** What the sweeps receive, and what observes them. */
export interface SweepWatch {
  readonly awaitTurn: AwaitTurn;
  /** Called with each page that a sweep reads. */
  readonly showPage: (page: ShownPage) => void;
  /** Called with each window that was read to its end. */
  readonly showWindow: (read: CommittedWindow) => void;
}

/** How many windows of the fast sweep may be too large in one cycle; each next one is half as long. */
const TOO_LARGE_MAX = 12;

/**
 * Makes the reads of a cycle: first the fast window, then the proof, then requested refetches, then what can wait, as
 * long as there is time.
 */
export function makeRunSweeps(
  deps: PollDeps,
  { awaitTurn, showPage, showWindow }: SweepWatch,
): (context: CycleContext) => Promise<CycleCounts> {
  const { logger, pool, source } = deps;
  const { sourceId } = source;
  const readPage = makeReadPage(deps, awaitTurn, showPage);
  const makeRunner = (sweep: Sweep) => makeSweepRunner(deps, { sweep, readPage, showWindow });

  const fast = makeRunner(makeFastSweep(deps));
  const delayed = makeRunner(makeDelayedSweep(deps));
  const backfill = makeRunner(
    makeBackfillSweep(deps, (within, limit) => readGaps(pool, { sourceId, within, limit })),
  );
  const requested = makeRunner(makeRequestedSweep(deps));
  const verify = makeRunner(makeVerifySweep(deps));
  // The proof precedes everything that can wait, so that nothing can delay it.
  const proof = makeSpareWork(deps, [delayed]);
  // Gaps precede requests by people: they delay what the mirror can claim.
  const spare = makeSpareWork(deps, [backfill, requested, verify]);

  async function runFast(take: Steps["take"]): Promise<void> {
    for (let tooLarge = 0; ;) {
      try {
        if ((await take(fast)) === undefined) return;
      } catch (error) {
        tooLarge += 1;
        if (!(error instanceof WalkTooLargeError) || tooLarge > TOO_LARGE_MAX) throw error;
        logger.info("the window is too large; reading it in shorter ones");
      }
    }
  }

  return async function runSweeps(context) {
    const { take, refetchesDue, counts } = countSteps(deps, context);
    await runFast(take);
    const proofError = await proof.run(context, take);
    const refetched = refetchesDue() ? await refetchOrders(deps, context) : NOTHING_REFETCHED;
    const laterError = await spare.run(context, take);
    const spareError = proofError ?? refetched.failure ?? laterError;
    const read = counts();
    const applied = read.applied + refetched.applied;
    return { ...read, applied, refetches: refetched.requests, spareError };
  };
}

interface Steps {
  /** Runs one step of a sweep, if it has anything to do now. */
  readonly take: (runner: SweepRunner) => Promise<Step | undefined>;
  /** Single reads of orders were due at the last step. */
  readonly refetchesDue: () => boolean;
  readonly counts: () => ReadCounts & Pick<CycleCounts, "windows" | "unproved">;
}

/** Takes the steps of one cycle; keeps their counts, the cursor and how far everything is proved. */
function countSteps(
  { client, clock }: Pick<PollDeps, "client" | "clock">,
  { term, signal, state }: CycleContext,
): Steps {
  const { providerClock } = client;
  const cycleStartedAt = providerClock.providerNow();
  let counts = NOTHING_READ;
  let { polledThrough, safeThrough } = state;
  let unproved = 0;
  let refetchesDue = true;
  const windows = new Map<SweepRunner, number>();

  const view = (runner: SweepRunner): SweepView => ({
    providerNow: providerClock.providerNow(),
    cycleStartedAt,
    nowMs: clock.monotonicMs(),
    historySince: state.historySince,
    openRequests: state.openRequests,
    polledThrough,
    safeThrough,
    windowsRead: windows.get(runner) ?? 0,
  });

  async function take(runner: SweepRunner): Promise<Step | undefined> {
    const step = await runner.step({ term, signal, view: view(runner) });
    if (step === undefined) return undefined;
    counts = addFigures(counts, step.counts);
    // A page that does not end its window may have requested some.
    refetchesDue = step.window?.progress.refetchesDue ?? true;
    if (step.window !== undefined) {
      ({ polledThrough, safeThrough } = step.window.progress);
      unproved += step.window.whole ? 0 : 1;
      windows.set(runner, (windows.get(runner) ?? 0) + 1);
    }
    return step;
  }

  const sum = () => [...windows.values()].reduce((total, count) => total + count, 0);
  return { take, refetchesDue: () => refetchesDue, counts: () => ({ ...counts, windows: sum(), unproved }) };
}
