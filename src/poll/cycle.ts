import { floorTo } from "../domain/order/instant.ts";
import type { PollTrouble } from "../domain/pollTrouble.ts";
import { failureOf } from "../domain/source/errors.ts";
import { BOUND_GRANULE } from "../domain/window/window.ts";
import { resolveSince } from "../config/duration.ts";
import { describeMessage } from "../process/telemetry/errorFields.ts";
import { makeReadAll, type CycleCounts } from "./cycleReads.ts";
import { makeSourceTasks } from "./leaderTasks.ts";
import type { Term } from "./leadership.ts";
import type { PollDeps } from "./pollDeps.ts";
import {
  beginCycle,
  beginPolling,
  endCycle,
  type CycleBegin,
  type CycleFailure,
  type CycleState,
  type NewCycleState,
} from "./pollState.sql.ts";

/*
 * What a leader does in each interval: it learns the provider's time, reads the state of the source, reads orders
 * (cycleReads.ts), does the tasks that are due (leaderTasks.ts), and records the end. Start at `makeCycle`.
 */

type CycleResult =
  | {
      readonly kind: "polled";
      readonly counts: CycleCounts;
      /** The instant at which the next cycle is due, by the monotonic clock. */
      readonly dueMs: number;
    }
  | Exclude<CycleBegin, { readonly kind: "begun" }>;

interface CycleRun {
  readonly term: Term;
  readonly signal: AbortSignal;
}

/**
 * Makes a leader's work in each interval: runs a cycle in this term, if one is due. Throws the error that ended it,
 * after recording it in mirror.poll_state; what failed in a sweep alone is recorded, too, and in the counts.
 */
export function makeCycle(deps: PollDeps): (run: CycleRun) => Promise<CycleResult> {
  const { client, clock, pool, logger, marginSeconds } = deps;
  const { sourceId } = deps.source;
  const intervalMs = deps.intervalSeconds * 1_000;
  const { rateWindowMs = client.promises.rateWindowMs } = deps;
  // A new leader waits so long: the previous one may have used up the rate limit a moment ago, and nobody else knows.
  // One that was killed has its lease for longer than a window.
  const quietMs = deps.pace === "request" ? intervalMs : rateWindowMs;
  const readAll = makeReadAll(deps);
  const runTasks = makeSourceTasks(deps);
  let begunTerm: Term | undefined;
  let openedTerm: Term | undefined;

  const end = (term: Term, failure: CycleFailure | "cut_short" | null) => {
    const clockErrorSeconds = client.providerClock.disagreementSeconds();
    return endCycle(pool, term.lease, { sourceId, failure, clockErrorSeconds });
  };

  async function runIfDue({ term, signal }: CycleRun): Promise<CycleResult> {
    const pace = { intervalMs, quietMs: begunTerm === term ? 0 : quietMs, marginSeconds };
    const { databaseNow, ...begun } = await beginCycle(pool, term.lease, { ...deps.source, ...pace });
    // In each cycle: either clock may be set meanwhile, and the database may be another server.
    client.providerClock.compareWith(databaseNow, clock.monotonicMs());
    if (begun.kind !== "begun") return begun;
    if (begunTerm !== term) logger.info({ fence: String(term.lease.fence) }, "leads now");
    begunTerm = term;
    // Not before it is due by the database's clock, which has counted from a moment before this one.
    const dueMs = clock.monotonicMs() + intervalMs;
    await synchronizeClock(client, signal);
    if (openedTerm !== term) await runTasks({ term, signal }, { opens: true });
    openedTerm = term;
    const state = await ensureStart(begun.state, term);
    const counts = await readAll({ term, signal, state, dueMs });
    await end(term, counts.headError === undefined ? null : toFailure(counts.headError));
    await runTasks({ term, signal });
    return { kind: "polled", counts, dueMs };
  }

  /** A source that was never polled starts now: from this instant on, and backwards to backfillSince. */
  async function ensureStart(state: NewCycleState, { lease }: Term): Promise<CycleState> {
    const { historySince, polledThrough } = state;
    if (historySince !== null && polledThrough !== null) return { ...state, historySince, polledThrough };
    const now = floorTo(client.providerClock.providerNow(), BOUND_GRANULE);
    const since = floorTo(resolveSince(deps.backfillSince, now), BOUND_GRANULE);
    const start = { historySince: since < now ? since : now, polledThrough: now };
    await beginPolling(pool, lease, { sourceId, ...start });
    return { ...state, ...start };
  }

  return async (context) => {
    const { term, signal } = context;
    try {
      return await runIfDue(context);
    } catch (error) {
      // Recorded however the cycle ended: the next leader reads here how long ago the last request was. endCycle keeps
      // the first error of a cycle.
      await end(term, signal.aborted ? "cut_short" : toFailure(error)).catch(() => undefined);
      throw error;
    }
  };
}

function toFailure(error: unknown): CycleFailure {
  return { sentence: describeMessage(error), trouble: nameTrouble(error) };
}

function nameTrouble(error: unknown): PollTrouble {
  const failure = failureOf(error);
  if (failure === "key_refused" || failure === "rate_limited") return failure;
  if (failure === "timeout") return "slow";
  return failure === "unavailable" || failure === "unreadable" ? "away" : "other";
}

/**
 * Ensures that the provider's clock is known before a window is derived from it: with a local clock some minutes ahead,
 * the cursor would pass changes that are still to come.
 *
 * It requests the branches, because that costs nothing of the list rate; their content does not matter. If the provider
 * sends no `Date` at all, the local clock minus a margin is used.
 */
async function synchronizeClock(
  client: Pick<PollDeps["client"], "listBranches" | "providerClock">,
  signal: AbortSignal,
): Promise<void> {
  if (client.providerClock.isSynchronized()) return;
  try {
    await client.listBranches({}, { priority: "poll", signal });
  } catch (error) {
    signal.throwIfAborted();
    // Any answer shows the time; but if the key is refused, the time is of no use.
    if (failureOf(error) === "key_refused" || !client.providerClock.isSynchronized()) throw error;
  }
}
