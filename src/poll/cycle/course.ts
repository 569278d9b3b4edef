import type { PollState } from "../ledger/pollState.sql.ts";
import type { PollDeps } from "./deps.ts";
import type { Term } from "../leader/leadership.ts";
import { addCounts, NOTHING_READ } from "./readWindow.ts";
import type { ReadCounts } from "./readWindow.ts";
import type { Step, SweepRunner } from "../sweeps/sweepRunner.ts";
import type { SweepView } from "../sweeps/sweeps.ts";

/** What a cycle read, and to what effect. */
export interface CourseCounts extends ReadCounts {
  /** Windows read to their end. */
  readonly windows: number;
  /** Of those, the ones that could not be proved whole. */
  readonly unproved: number;
}

export interface CycleContext {
  readonly term: Term;
  readonly signal: AbortSignal;
  readonly state: PollState;
  /** On the monotonic clock: when the next cycle is due. */
  readonly dueMs: number;
}

/** The course of one cycle: where it stands, and what its steps have counted and moved so far. */
export interface Course {
  /** One step of a sweep, if it has anything to do now. */
  take(runner: SweepRunner): Promise<Step | undefined>;
  countApplied(applied: number): void;
  result(): CourseCounts;
}

export function startCourse(deps: Pick<PollDeps, "client" | "clock">, context: CycleContext): Course {
  const { providerClock } = deps.client;
  const { term, signal, state } = context;
  const cycleStartedAt = providerClock.providerNow();
  let counts = NOTHING_READ;
  let { polledThrough, safeThrough } = state;
  let unproved = 0;
  const windows = new Map<SweepRunner, number>();

  const view = (runner: SweepRunner): SweepView => ({
    providerNow: providerClock.providerNow(),
    cycleStartedAt,
    nowMs: deps.clock.monotonicMs(),
    historySince: state.historySince,
    polledThrough,
    safeThrough,
    windowsRead: windows.get(runner) ?? 0,
  });

  async function take(runner: SweepRunner): Promise<Step | undefined> {
    const step = await runner.step({ term, signal, view: view(runner) });
    if (step === undefined) return undefined;
    counts = addCounts(counts, step.counts);
    if (step.window !== undefined) {
      ({ polledThrough, safeThrough } = step.window.progress);
      unproved += step.window.whole ? 0 : 1;
      windows.set(runner, (windows.get(runner) ?? 0) + 1);
    }
    return step;
  }

  return {
    take,
    countApplied: (applied) => void (counts = addCounts(counts, { ...NOTHING_READ, applied })),
    result: () => ({
      ...counts,
      windows: [...windows.values()].reduce((sum, count) => sum + count, 0),
      unproved,
    }),
  };
}
