import { readGaps } from "../ledger/coverage.sql.ts";
import { startCourse } from "./course.ts";
import type { Course, CourseCounts, CycleContext } from "./course.ts";
import type { PollDeps } from "./deps.ts";
import { WalkTooLargeError } from "./errors.ts";
import type { AwaitTurn } from "./pace.ts";
import { makeReadPage } from "./readWindow.ts";
import type { ShownPage } from "./readWindow.ts";
import { refetchOrders } from "../sweeps/refetch.ts";
import { makeRequestedSweep } from "../sweeps/requestedSweep.ts";
import { makeSpareWork } from "../sweeps/spareWork.ts";
import { makeSweepRunner } from "../sweeps/sweepRunner.ts";
import type { CommittedWindow } from "../sweeps/walkStore.ts";
import { makeBackfillSweep, makeDelayedSweep, makeFastSweep } from "../sweeps/sweeps.ts";
import type { Sweep } from "../sweeps/sweeps.ts";
import { makeVerifySweep } from "../sweeps/verifySweep.ts";

/** What a cycle did. */
export interface CycleCounts extends CourseCounts {
  readonly refetches: number;
  /** What went wrong beside the fast window, which was read anyway. */
  readonly spareError: unknown;
}

export interface Cycle {
  /** First the fast window, then the proof, then requested refetches, then what can wait, for as long as there is time. */
  readonly run: (context: CycleContext) => Promise<CycleCounts>;
}

/** Called with what the sweeps read. */
export interface CycleWatch {
  readonly showPage: (page: ShownPage) => void;
  readonly noteRead: (read: CommittedWindow) => void;
}

/** Windows of the fast sweep that may prove too large in one cycle, each next one half as long. */
const TOO_LARGE_MAX = 12;

export function makeCycle(
  deps: PollDeps,
  { awaitTurn, showPage, noteRead }: { awaitTurn: AwaitTurn } & Partial<CycleWatch>,
): Cycle {
  const { logger, pool, source } = deps;
  const { sourceId } = source;
  const readPage = makeReadPage(deps, awaitTurn, showPage);
  const makeRunner = (sweep: Sweep) => makeSweepRunner(deps, { sweep, readPage, noteRead });

  const fast = makeRunner(makeFastSweep(deps));
  const delayed = makeRunner(makeDelayedSweep(deps));
  const backfill = makeRunner(
    makeBackfillSweep(deps, (within, limit) => readGaps(pool, { sourceId, within, limit })),
  );
  const requested = makeRunner(makeRequestedSweep(deps));
  const verify = makeRunner(makeVerifySweep(deps));
  // The proof comes before everything that can wait, so that nothing of that can hold it up.
  const proof = makeSpareWork(deps, [delayed]);
  // Gaps come before what somebody asked for: they hold up what the mirror can vouch for.
  const spare = makeSpareWork(deps, [backfill, requested, verify]);

  async function runFast(course: Course): Promise<void> {
    for (let tooLarge = 0; ;) {
      try {
        if ((await course.take(fast)) === undefined) return;
      } catch (error) {
        tooLarge += 1;
        if (!(error instanceof WalkTooLargeError) || tooLarge > TOO_LARGE_MAX) throw error;
        logger.info("the window is too large; reading it in shorter ones");
      }
    }
  }

  return {
    async run(context) {
      const course = startCourse(deps, context);
      await runFast(course);
      const proofError = await proof.run(context, course);
      const refetched = await refetchOrders(deps, context);
      course.countApplied(refetched.applied);
      const laterError = await spare.run(context, course);
      const spareError = proofError ?? refetched.failure ?? laterError;
      return { ...course.result(), refetches: refetched.requests, spareError };
    },
  };
}
