import { addFigures } from "../../domain/figures.ts";
import type { Window } from "../../domain/window/window.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { WalkForgottenError, WalkStalledError, WalkTooLargeError } from "../cycle/errors.ts";
import type { Term } from "../leader/leadership.ts";
import { startReading } from "../cycle/readWindow.ts";
import type { AppliedPage, ReadCounts, Reading, ReadPage } from "../cycle/readWindow.ts";
import type { Sweep, SweepView } from "./sweeps.ts";
import { makeWalkStore } from "./walkStore.ts";
import type { CommittedWindow, WalkStore } from "./walkStore.ts";

/** The result of one step of a sweep. `window` is set if the step completed a window. */
export interface Step {
  readonly counts: ReadCounts;
  readonly window: CommittedWindow | undefined;
}

interface StepContext {
  readonly term: Term;
  readonly signal: AbortSignal;
  readonly view: SweepView;
}

export interface SweepRunner {
  readonly name: Sweep["name"];
  /**
   * Reads one page, of the current or the next window, and commits the window with its last page. A term starts with
   * the window that the previous one left half read. Undefined if the sweep has nothing to do now. An error leaves the
   * window unchanged, to be continued at the next step; after several failures in a row a shorter window is started
   * instead.
   */
  readonly step: (context: StepContext) => Promise<Step | undefined>;
}

const FAILURES_BEFORE_SHORTER = 3;

export function makeSweepRunner(
  deps: Pick<
    PollDeps,
    "source" | "client" | "pool" | "clock" | "logger" | "settleSeconds" | "overlapSeconds"
  >,
  options: {
    sweep: Sweep;
    readPage: ReadPage;
    /** Called with each committed window. */
    showWindow?: ((read: CommittedWindow) => void) | undefined;
  },
): SweepRunner {
  const { sweep } = options;
  const { client, clock } = deps;
  const noteCommitted = makeNoteCommitted(deps, options);
  const store = makeWalkStore(deps, sweep);
  const readOn = makeReadOn(store, options);
  /** The term for which the walk was loaded, at its start or after a doubt. */
  let loadedFor: Term | undefined;
  let underWay: Reading | undefined;
  let failures = 0;

  async function step({ term, signal, view }: StepContext): Promise<Step | undefined> {
    if (loadedFor !== term) {
      underWay = await store.load(term);
      loadedFor = term;
    }
    const window = underWay?.walk.window ?? (await sweep.next(view, term));
    if (window === undefined) return undefined;
    const before =
      underWay ?? startReading(window, { limit: client.promises.pageRowsMax, nowMs: clock.monotonicMs() });
    underWay = before;
    try {
      term.assertLeading();
      const { after, committed } = await readOn(before, { term, signal });
      underWay = committed === undefined ? after : undefined;
      if (committed !== undefined) await noteCommitted(committed, after, { term, signal });
      failures = 0;
      return { counts: addFigures(after.counts, before.counts, -1), window: committed };
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
    if (error instanceof WalkForgottenError) loadedFor = undefined;
  }

  return { name: sweep.name, step };
}

/** Reads one page and stores it, or with the last one the window. Throws if the walk has failed. */
function makeReadOn(store: WalkStore, { sweep, readPage }: Parameters<typeof makeSweepRunner>[1]) {
  return async function readOn(before: Reading, { term, signal }: Omit<StepContext, "view">) {
    const { via, priority, rehearses } = sweep;
    let committed: CommittedWindow | undefined;
    const after = await readPage(before, {
      via,
      priority,
      rehearses,
      notePage: (page: AppliedPage) => sweep.notePage?.(page),
      async keep(client, reading, decisions) {
        committed = await store.save(client, { before, after: reading, decisions, term });
      },
      signal,
    });
    assertWalks(after);
    return { after, committed };
  };
}

function makeNoteCommitted(
  { clock, logger }: Pick<PollDeps, "clock" | "logger">,
  { sweep, showWindow }: Parameters<typeof makeSweepRunner>[1],
) {
  return async function noteCommitted(
    committed: CommittedWindow,
    { counts }: Reading,
    context: Omit<StepContext, "view">,
  ) {
    const { window, whole, proved } = committed;
    const { requests, orders } = counts;
    if (!whole) {
      logger.warn(
        { sweep: sweep.name, orders },
        "orders that share a timestamp change their order with each request; a later sweep must find what is missing",
      );
    }
    await sweep.noteRead(window, { proved, requests, orders, nowMs: clock.monotonicMs(), ...context });
    showWindow?.(committed);
  };
}

function assertWalks({ walk }: Reading): void {
  if (walk.outcome?.kind === "too_large") {
    throw new WalkTooLargeError("the window has more pages than one walk may read");
  }
  if (walk.outcome?.kind === "stalled") {
    throw new WalkStalledError("the provider says that there are more orders but does not list them");
  }
}
