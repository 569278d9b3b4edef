import { addSeconds } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import { commitWindow } from "../ledger/coverage.sql.ts";
import type { Progress } from "../ledger/coverage.sql.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { WalkStalledError, WalkTooLargeError } from "../cycle/errors.ts";
import type { Term } from "../leader/leadership.ts";
import { startReading } from "../cycle/readWindow.ts";
import type { AppliedPage, ReadCounts, Reading, ReadPage } from "../cycle/readWindow.ts";
import type { Sweep, SweepView } from "./sweeps.ts";

/** What one step of a sweep did. `window` is there when the step was the last one of a window. */
export interface Step {
  readonly counts: ReadCounts;
  readonly window: CommittedWindow | undefined;
}

export interface CommittedWindow {
  readonly window: Window;
  readonly progress: Progress;
  /** Every order of the window was on a page, beyond doubt. */
  readonly whole: boolean;
  /** Lower bound of the provider's time at which its first page was asked for. */
  readonly begunAt: Instant | undefined;
}

interface StepContext {
  readonly term: Term;
  readonly signal: AbortSignal;
  readonly view: SweepView;
}

export interface SweepRunner {
  readonly name: Sweep["name"];
  /**
   * Reads one page, of the window under way or of the next one, and commits the window when that was its last.
   * Undefined when the sweep has nothing to do now. What it throws leaves the window as it was, to be gone on with
   * at the next step; after several failures in a row a shorter window is begun instead.
   */
  readonly step: (context: StepContext) => Promise<Step | undefined>;
  /** Forgets the window under way: another process leads. */
  readonly abandon: () => void;
}

const FAILURES_BEFORE_SHORTER = 3;
export const NOTHING_READ: ReadCounts = { requests: 0, orders: 0, applied: 0, unreadable: 0 };

export function makeSweepRunner(
  deps: Pick<PollDeps, "source" | "pool" | "clock" | "logger">,
  options: {
    sweep: Sweep;
    readPage: ReadPage;
    /** Told of each window that was committed. */
    noteRead?: ((read: CommittedWindow) => void) | undefined;
  },
): SweepRunner {
  const { sweep, readPage, noteRead } = options;
  const { clock } = deps;
  const commit = makeCommit(deps, sweep);
  let underWay: Reading | undefined;
  let failures = 0;

  async function step({ term, signal, view }: StepContext): Promise<Step | undefined> {
    const window = underWay?.walk.window ?? (await sweep.next(view, term));
    if (window === undefined) return undefined;
    const before = underWay ?? startReading(window, clock.monotonicMs());
    underWay = before;
    try {
      term.assertLeading();
      // A walk whose commit failed is over already.
      const { via, priority } = sweep;
      const notePage = (page: AppliedPage) => sweep.notePage?.(page);
      const isOver = before.walk.outcome !== undefined;
      const after = isOver ? before : await readPage(before, { via, priority, notePage, signal });
      underWay = after;
      const committed = isRead(after) ? await commit(after, term) : undefined;
      if (committed !== undefined) {
        underWay = undefined;
        noteRead?.(committed);
      }
      failures = 0;
      return { counts: subtract(after.counts, before.counts), window: committed };
    } catch (error) {
      if (signal.aborted) throw error;
      noteFailure(error, window);
      await sweep.noteFailure?.(error, term);
      throw error;
    }
  }

  function noteFailure(error: unknown, window: Window): void {
    failures += 1;
    const repeated = failures >= FAILURES_BEFORE_SHORTER;
    if (repeated || error instanceof WalkTooLargeError) sweep.span.shorten(window);
    const hopeless = error instanceof WalkTooLargeError || error instanceof WalkStalledError;
    if (repeated || hopeless) underWay = undefined;
  }

  return { name: sweep.name, step, abandon: () => void (underWay = undefined) };
}

/** True when the window was read to its end, false when there are more pages. Throws when the walk has failed. */
function isRead({ walk }: Reading): boolean {
  switch (walk.outcome?.kind) {
    case undefined:
      return false;
    case "read":
      return true;
    case "too_large":
      throw new WalkTooLargeError("the window has more pages than one walk may read");
    case "stalled":
      throw new WalkStalledError("the provider says that there are more orders but does not list them");
    default: {
      const never: never = walk.outcome;
      return never;
    }
  }
}

function makeCommit(deps: Pick<PollDeps, "source" | "pool" | "clock" | "logger">, sweep: Sweep) {
  const { pool, clock, logger } = deps;
  const { sourceId } = deps.source;
  return async function commit(reading: Reading, term: Term): Promise<CommittedWindow> {
    const { window, proved: whole } = reading.walk;
    const { requests, orders } = reading.counts;
    const nowMs = clock.monotonicMs();
    const proved = whole && isLate(reading, sweep.provesAfterSeconds);
    const progress = await commitWindow(pool, term.lease, {
      ...window,
      sourceId,
      sweep: sweep.name,
      proved,
      // A window that reaches beyond the time of its reading, since the answer set the clock back, would carry the
      // cursor past changes that are still to come.
      movesCursor: sweep.movesCursor && isLate(reading, 0),
      requests,
      orders,
      durationMs: Math.max(0, Math.round(nowMs - reading.begunAtMs)),
    });
    await sweep.noteRead(window, { proved, requests, orders, nowMs, term });
    if (!whole) {
      logger.warn(
        { sweep: sweep.name, orders },
        "orders that share a timestamp come in another order each time; a later sweep must find what is missing",
      );
    }
    return { window, progress, whole, begunAt: reading.begunAt };
  };
}

function isLate({ walk, begunAt }: Reading, provesAfterSeconds: number | undefined): boolean {
  if (provesAfterSeconds === undefined || begunAt === undefined) return false;
  return begunAt >= addSeconds(walk.window.until, provesAfterSeconds);
}

function subtract(after: ReadCounts, before: ReadCounts): ReadCounts {
  return {
    requests: after.requests - before.requests,
    orders: after.orders - before.orders,
    applied: after.applied - before.applied,
    unreadable: after.unreadable - before.unreadable,
  };
}

/** The sum of two counts. */
export function addCounts(left: ReadCounts, right: ReadCounts): ReadCounts {
  return {
    requests: left.requests + right.requests,
    orders: left.orders + right.orders,
    applied: left.applied + right.applied,
    unreadable: left.unreadable + right.unreadable,
  };
}
