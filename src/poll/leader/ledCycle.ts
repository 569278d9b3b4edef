import { floorTo } from "../../domain/order/instant.ts";
import { BOUND_GRANULE } from "../../domain/window/window.ts";
import { beginCycle, beginPolling, endCycle, readPollState } from "../ledger/pollState.sql.ts";
import type { PollState } from "../ledger/pollState.sql.ts";
import { resolveSince } from "../../runtime/config/duration.ts";
import { describePollFailure } from "./describePollFailure.ts";
import { ArrivalLog } from "../behaviour/arrivalLog.ts";
import { makeSourceTasks } from "../tasks/leaderTasks.ts";
import type { LeaderTasks } from "../tasks/leaderTasks.ts";
import { makeCycle } from "../cycle/cycle.ts";
import type { Cycle, CycleCounts } from "../cycle/cycle.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { Term } from "./leadership.ts";
import { makeProviderMeasurement } from "../behaviour/measureProvider.ts";
import { makeAwaitTurn } from "../cycle/pace.ts";
import { synchronizeClock } from "../cycle/synchronizeClock.ts";
import { makeTuner } from "../behaviour/tuneMargins.ts";
import type { Tuner } from "../behaviour/tuneMargins.ts";

type LedCycleResult =
  | { readonly kind: "polled"; readonly counts: CycleCounts }
  | { readonly kind: "not_due"; readonly waitMs: number };

export interface LedCycle {
  /** A cycle under this term, if one is due. Throws what went wrong, after noting it beside the cursor. */
  run(context: { term: Term; signal: AbortSignal }): Promise<LedCycleResult>;
}

/** What a leader does around a cycle: know the time, know where it stands, keep the pace of the leader before. */
export function makeLedCycle(deps: PollDeps): LedCycle {
  const { client, clock, pool } = deps;
  const { sourceId } = deps.source;
  const intervalMs = deps.intervalSeconds * 1_000;
  const { cycle, tasks, tuner } = makeWork(deps);
  let begunTerm: Term | undefined;

  async function run({ term, signal }: { term: Term; signal: AbortSignal }): Promise<LedCycleResult> {
    try {
      return await runIfDue(term, signal);
    } catch (error) {
      // However it ended: the next leader reads here how long ago the last request was. The error that counts is
      // the first one.
      const failure = signal.aborted ? "cut_short" : describePollFailure(error);
      await endCycle(pool, term.lease, { sourceId, failure }).catch(() => undefined);
      throw error;
    }
  }

  async function runIfDue(term: Term, signal: AbortSignal): Promise<LedCycleResult> {
    await synchronizeClock(client, signal);
    const state = (await readPollState(pool, sourceId)) ?? (await begin(term));
    if (begunTerm !== term) {
      await tuner.resume();
      await waitForQuiet(state, signal);
      begunTerm = term;
    }
    const dueMs = clock.monotonicMs() + intervalMs;
    const { waitMs } = await beginCycle(pool, term.lease, {
      sourceId,
      intervalMs,
      providerNow: client.providerClock.providerNow(),
    });
    if (waitMs > 0) return { kind: "not_due", waitMs };
    const counts = await cycle.run({ term, signal, state, dueMs });
    await endCycle(pool, term.lease, { sourceId, failure: null });
    await tasks.run({ term, signal });
    return { kind: "polled", counts };
  }

  /** A source that was never polled begins now: from this instant on, and back to backfillSince from it. */
  async function begin(term: Term): Promise<PollState> {
    const now = floorTo(client.providerClock.providerNow(), BOUND_GRANULE);
    const since = floorTo(resolveSince(deps.backfillSince, now), BOUND_GRANULE);
    const historySince = since < now ? since : now;
    await beginPolling(pool, term.lease, { sourceId, historySince, polledThrough: now });
    return { historySince, polledThrough: now, safeThrough: undefined, idleMs: undefined };
  }

  /** The leader before this one may have used up the rate a moment ago, and nobody else knows. */
  async function waitForQuiet({ idleMs }: PollState, signal: AbortSignal): Promise<void> {
    const quietMs =
      deps.pace === "request" ? intervalMs : (deps.rateWindowMs ?? client.promises.rateWindowMs);
    const waitMs = idleMs === undefined ? 0 : quietMs - idleMs;
    if (waitMs > 0) await clock.sleep(waitMs, signal);
  }

  return { run };
}

/** The cycle and the tasks, with what they learn of the provider and are tuned by. */
function makeWork(deps: PollDeps): { cycle: Cycle; tasks: LeaderTasks; tuner: Tuner } {
  const { clock } = deps;
  const gapMs = deps.pace === "request" ? deps.intervalSeconds * 1_000 : 0;
  const awaitTurn = makeAwaitTurn({ clock, gapMs });
  const arrivals = new ArrivalLog();
  const tuner = makeTuner(deps, arrivals);
  const tuned: PollDeps = {
    ...deps,
    get settleSeconds() {
      return tuner.current().settleSeconds;
    },
    get overlapSeconds() {
      return tuner.current().overlapSeconds;
    },
    // As far back as the latest change was late a read may not know of one.
    get horizonSeconds() {
      return deps.horizonSeconds ?? tuner.lookbackSeconds();
    },
    get lookbackSeconds() {
      return tuner.lookbackSeconds();
    },
  };
  const measurement = makeProviderMeasurement(tuned, awaitTurn);
  const cycle = makeCycle(tuned, {
    awaitTurn,
    showPage(page) {
      measurement.showPage(page);
      arrivals.showPage(page);
    },
    noteRead({ window, whole, begunAt }) {
      if (whole) arrivals.noteRead({ window, begunAt });
    },
  });
  return { cycle, tasks: makeSourceTasks(tuned, [tuner.task, measurement.task]), tuner };
}
