import type { PollTrouble } from "../../domain/pollTrouble.ts";
import { failureOf } from "../../domain/source/errors.ts";
import { describeMessage } from "../../runtime/telemetry/errorFields.ts";
import { resolveSince } from "../../runtime/config/duration.ts";
import { floorTo } from "../../domain/order/instant.ts";
import { BOUND_GRANULE } from "../../domain/window/window.ts";
import type { Term } from "../leader/leadership.ts";
import { beginCycle, beginPolling, endCycle, readPollState } from "../ledger/pollState.sql.ts";
import type { CycleBegin, CycleFailure } from "../ledger/pollState.sql.ts";
import { makeSourceTasks } from "../tasks/leaderTasks.ts";
import type { PollDeps } from "./deps.ts";
import { makeRunSweeps } from "./runSweeps.ts";
import type { CycleCounts } from "./runSweeps.ts";

type CycleResult =
  | {
      readonly kind: "polled";
      readonly counts: CycleCounts;
      /** When the next cycle is due, by the monotonic clock. */
      readonly dueMs: number;
    }
  | Exclude<CycleStart, { readonly kind: "begun" }>;

type CycleStart = Exclude<CycleBegin, { readonly kind: "never_polled" }>;

interface CycleRun {
  readonly term: Term;
  /** The state of the source in which it was found to be ours and not paused; see POLLED_AS. */
  readonly polledAs: string;
  readonly signal: AbortSignal;
}

export interface Cycle {
  /**
   * Runs a cycle in this term, if one is due and the source is as it was. Throws the error that ended it, after recording
   * it in mirror.poll_state.
   */
  run(context: CycleRun): Promise<CycleResult>;
}

/** A leader's work in each interval: learn the time, read the state, run the sweeps, then the tasks. */
export function makeCycle(deps: PollDeps): Cycle {
  const { client, clock, pool } = deps;
  const { sourceId } = deps.source;
  const intervalMs = deps.intervalSeconds * 1_000;
  const clockError = () => client.providerClock.disagreementSeconds();
  const runSweeps = makeRunSweeps(deps);
  const tasks = makeSourceTasks(deps);
  let begunTerm: Term | undefined;

  async function run(context: CycleRun): Promise<CycleResult> {
    const { term, signal } = context;
    try {
      return await runIfDue(context);
    } catch (error) {
      // Recorded however the cycle ended: the next leader reads here how long ago the last request was. The first error
      // counts.
      const failure = signal.aborted ? "cut_short" : describeFailure(error);
      await endCycle(pool, term.lease, { sourceId, failure, clockErrorSeconds: clockError() }).catch(
        () => undefined,
      );
      throw error;
    }
  }

  async function runIfDue({ term, polledAs, signal }: CycleRun): Promise<CycleResult> {
    await synchronizeClock(client, signal);
    if (begunTerm !== term) {
      await waitForQuiet(deps, await readPollState(pool, sourceId), signal);
      await tasks.open({ term, signal });
      begunTerm = term;
    }
    const begun = await begin(term, polledAs);
    if (begun.kind !== "begun") return begun;
    // Not before it is due by the database's clock, which has counted from a moment before this one.
    const dueMs = clock.monotonicMs() + intervalMs;
    const counts = await runSweeps({ term, signal, state: begun.state, dueMs });
    await endCycle(pool, term.lease, { sourceId, failure: null, clockErrorSeconds: clockError() });
    await tasks.run({ term, signal });
    return { kind: "polled", counts, dueMs };
  }

  /** A source that was never polled starts now: from this instant on, and backwards to backfillSince. */
  async function begin(term: Term, polledAs: string): Promise<CycleStart> {
    const { providerClock } = client;
    const cycle = { sourceId, polledAs, intervalMs, marginSeconds: deps.marginSeconds };
    const { databaseNow, ...begun } = await beginCycle(pool, term.lease, cycle);
    // In each cycle: either clock may be set meanwhile, and the database may be another server.
    providerClock.compareWith(databaseNow, clock.monotonicMs());
    if (begun.kind !== "never_polled") return begun;
    const now = floorTo(providerClock.providerNow(), BOUND_GRANULE);
    const since = floorTo(resolveSince(deps.backfillSince, now), BOUND_GRANULE);
    const historySince = since < now ? since : now;
    await beginPolling(pool, term.lease, { sourceId, historySince, polledThrough: now });
    return begin(term, polledAs);
  }

  return { run };
}

/** The previous leader may have used up the rate limit a moment ago, and nobody else knows. */
async function waitForQuiet(
  { client, clock, pace, rateWindowMs, intervalSeconds }: PollDeps,
  state: { readonly idleMs: number | undefined } | undefined,
  signal: AbortSignal,
): Promise<void> {
  const idleMs = state?.idleMs;
  const windowMs = rateWindowMs ?? client.promises.rateWindowMs;
  const quietMs = pace === "request" ? intervalSeconds * 1_000 : windowMs;
  const waitMs = idleMs === undefined ? 0 : quietMs - idleMs;
  if (waitMs > 0) await clock.sleep(waitMs, signal);
}

/** What is stored about an error that ended a cycle. */
function describeFailure(error: unknown): CycleFailure {
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
