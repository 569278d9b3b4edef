import { LeaseLostError } from "../database/leases.sql.ts";
import { floorTo } from "../domain/order/instant.ts";
import type { PollTrouble } from "../domain/pollTrouble.ts";
import { failureOf } from "../domain/source/errors.ts";
import { BOUND_GRANULE } from "../domain/window/window.ts";
import { resolveSince } from "../config/duration.ts";
import { describeMessage } from "../process/telemetry/errorFields.ts";
import { readWalked } from "./coverage.sql.ts";
import { makeSourceTasks } from "./leaderTasks.ts";
import type { Term } from "./leadership.ts";
import { finishRequests } from "./periodRequests.sql.ts";
import type { PollDeps } from "./pollDeps.ts";
import {
  beginCycle,
  beginPolling,
  endCycle,
  type CycleBegin,
  type CycleFailure,
  type CycleState,
} from "./pollState.sql.ts";
import { readOrders } from "./singleReads.ts";
import {
  makeHeadSweep,
  makePeriodSweep,
  makeProofSweep,
  type HeadSweep,
  type ProofSweep,
  type SweepView,
} from "./sweeps.ts";
import { WalkTooLargeError, WindowReader, type Job, type ReadCounts, type Step } from "./windows.ts";

/*
 * What a leader does in each interval:
 * 1. learn the provider's time, and read the state of the source;
 * 2. the head sweep: what is new. It makes proofs of the windows that were walked before;
 * 3. the proof sweep, then requested periods, a page at a time until the next cycle is due; if that has walked a window,
 *    another head sweep makes it a proof;
 * 4. read orders singly;
 * 5. record the end, then the tasks that are due.
 * sweeps.ts chooses the windows, windows.ts reads and commits them. Start at `makeCycle`.
 */

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

/**
 * Makes a leader's work in each interval: runs a cycle in this term, if one is due and the source is as it was. Throws the
 * error that ended it, after recording it in mirror.poll_state.
 */
export function makeCycle(deps: PollDeps): (run: CycleRun) => Promise<CycleResult> {
  const { client, clock, pool } = deps;
  const { sourceId } = deps.source;
  const intervalMs = deps.intervalSeconds * 1_000;
  const { rateWindowMs = client.promises.rateWindowMs } = deps;
  // A new leader waits so long: the previous one may have used up the rate limit a moment ago, and nobody else knows. One
  // that was killed has its lease for longer than a window.
  const quietMs = deps.pace === "request" ? intervalMs : rateWindowMs;
  const clockError = () => client.providerClock.disagreementSeconds();
  const readAll = makeReadAll(deps);
  const tasks = makeSourceTasks(deps);
  let openedTerm: Term | undefined;
  let begunTerm: Term | undefined;

  async function runIfDue({ term, polledAs, signal }: CycleRun): Promise<CycleResult> {
    await synchronizeClock(client, signal);
    if (openedTerm !== term) await tasks.open({ term, signal });
    openedTerm = term;
    const begun = await begin(term, polledAs);
    if (begun.kind !== "begun") return begun;
    begunTerm = term;
    // Not before it is due by the database's clock, which has counted from a moment before this one.
    const dueMs = clock.monotonicMs() + intervalMs;
    const counts = await readAll({ term, signal, state: begun.state, dueMs });
    await endCycle(pool, term.lease, { sourceId, failure: null, clockErrorSeconds: clockError() });
    await tasks.run({ term, signal });
    return { kind: "polled", counts, dueMs };
  }

  /** A source that was never polled starts now: from this instant on, and backwards to backfillSince. */
  async function begin(term: Term, polledAs: string): Promise<CycleStart> {
    const { providerClock } = client;
    const { marginSeconds } = deps;
    const cycle = {
      sourceId,
      polledAs,
      intervalMs,
      quietMs: begunTerm === term ? 0 : quietMs,
      marginSeconds,
    };
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

  return async (context) => {
    const { term, signal } = context;
    try {
      return await runIfDue(context);
    } catch (error) {
      // Recorded however the cycle ended: the next leader reads here how long ago the last request was. The first error
      // counts.
      const failure: CycleFailure | "cut_short" = signal.aborted
        ? "cut_short"
        : { sentence: describeMessage(error), trouble: nameTrouble(error) };
      const end = { sourceId, failure, clockErrorSeconds: clockError() };
      await endCycle(pool, term.lease, end).catch(() => undefined);
      throw error;
    }
  };
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

/** What a cycle read, and the effect. */
export interface CycleCounts extends ReadCounts {
  /** Windows read to their end. */
  windows: number;
  /** The number of them that could not be proved complete. */
  unproved: number;
  /** Orders read singly. */
  refetches: number;
  /** An error outside the head sweep, which was read anyway. */
  spareError: unknown;
}

export function countNothing(): CycleCounts {
  return {
    requests: 0,
    orders: 0,
    applied: 0,
    unreadable: 0,
    windows: 0,
    unproved: 0,
    refetches: 0,
    spareError: undefined,
  };
}

interface CycleContext {
  readonly term: Term;
  readonly signal: AbortSignal;
  readonly state: CycleState;
  /** On the monotonic clock: when the next cycle is due. */
  readonly dueMs: number;
}

/** How many windows of the head sweep may be too large in one cycle; each next one is half as long. */
const TOO_LARGE_MAX = 12;
/** Per cycle, far more than the rate allows. */
const PAGES_MAX = 1_000;
/**
 * With the pace `request` an interval is over after each page. A head sweep that closes reads a margin again, so what is
 * to be proved is read as a whole before the next one: so many pages, or as many as the head sweep had if that is more.
 */
const PROOF_PAGES = 12;

/** Makes the reads of a cycle: steps 2 to 4. */
function makeReadAll(deps: PollDeps): (context: CycleContext) => Promise<CycleCounts> {
  const head = { sweep: makeHeadSweep(deps), reader: new WindowReader(deps) };
  const workers = [makeProofSweep(deps), makePeriodSweep(deps)].map((sweep) => ({
    sweep,
    reader: new WindowReader(deps),
  }));
  return (context) => new CycleReads(deps, { head, workers, context }).run();
}

interface CycleParts {
  readonly head: { readonly sweep: HeadSweep; readonly reader: WindowReader };
  readonly workers: readonly Worker[];
  readonly context: CycleContext;
}

interface Worker {
  readonly sweep: ProofSweep;
  readonly reader: WindowReader;
}

/** The reads of one cycle under way. */
class CycleReads {
  readonly #deps: PollDeps;
  readonly #parts: CycleParts;
  #state: CycleState;
  readonly #counts = countNothing();
  readonly #failed = new Set<Worker>();

  constructor(deps: PollDeps, parts: CycleParts) {
    this.#deps = deps;
    this.#parts = parts;
    this.#state = parts.context.state;
  }

  async run(): Promise<CycleCounts> {
    const { context } = this.#parts;
    await this.#readHead(this.#state.hasWalked);
    const walked = await this.#prove();
    // Where every read counts, the next cycle's head sweep does it.
    if (walked && this.#deps.pace === "cycle") await this.#readHead(true);
    // Whatever was read may ask for others.
    if (this.#state.areReadsDue || this.#counts.orders > 0 || walked) {
      const failure = await readOrders(this.#deps, { ...context, counts: this.#counts });
      this.#counts.spareError ??= failure;
    }
    const { pool, source } = this.#deps;
    if (this.#state.hasRequests) await finishRequests(pool, context.term.lease, source.sourceId);
    return this.#counts;
  }

  #view(): SweepView {
    const { client, clock } = this.#deps;
    return {
      providerNow: client.providerClock.providerNow(),
      nowMs: clock.monotonicMs(),
      state: this.#state,
    };
  }

  async #take(reader: WindowReader, choose: () => Promise<Job | undefined>): Promise<Step | undefined> {
    const step = await reader.step({ ...this.#parts.context, counts: this.#counts }, choose);
    if (step !== undefined && step !== "under way") this.#counts.windows += 1;
    if (step === "unproved") this.#counts.unproved += 1;
    return step;
  }

  /** `closes`: windows were walked before, which it makes proofs. */
  async #readHead(closes: boolean): Promise<void> {
    const { pool, logger, source } = this.#deps;
    const { head, context } = this.#parts;
    const nothing = { waits: false, reach: undefined };
    const { waits, reach } = closes ? await readWalked(pool, source.sourceId) : nothing;
    head.reader.forget();
    head.sweep.begin(this.#view(), context.term, { closes: waits, reach });
    const choose = () => Promise.resolve(head.sweep.next(this.#view(), context.term));
    for (let tooLarge = 0; ;) {
      try {
        const step = await this.#take(head.reader, choose);
        if (step === undefined) break;
        if (step === "read") tooLarge = 0;
      } catch (error) {
        tooLarge += 1;
        if (!(error instanceof WalkTooLargeError) || tooLarge > TOO_LARGE_MAX) throw error;
        logger.info("the window is too large; reading it in shorter ones");
      }
    }
    const { doubted, ...progress } = head.sweep.progress() ?? { doubted: 0 };
    const wasDoubted = this.#state.isListDoubted;
    this.#state = { ...this.#state, ...progress, isListDoubted: doubted > 0 || (wasDoubted && !waits) };
    if (doubted > 0 && !wasDoubted) {
      logger.error(
        "the provider's list omits orders that the mirror has; nothing is proved until that is explained",
      );
    }
  }

  /** Reads what is to be proved, and requests, a page at a time; resolves with whether a window was walked. */
  async #prove(): Promise<boolean> {
    let walked = false;
    // So many pages of each worker are read even if the next cycle is due.
    const wholeProof = this.#state.safeThrough === undefined ? 1 : PROOF_PAGES;
    const due = [this.#deps.pace === "cycle" ? 1 : Math.max(this.#counts.requests, wholeProof), 1];
    for (let pages = 0; pages < PAGES_MAX; pages += 1) {
      const isOver = this.#deps.clock.monotonicMs() >= this.#parts.context.dueMs;
      const turn = await this.#takeTurn((index) => !isOver || (due[index] ?? 0) > 0);
      if (turn === undefined) break;
      due[turn.index] = (due[turn.index] ?? 0) - 1;
      walked ||= turn.step === "proved";
    }
    return walked;
  }

  /**
   * One page of the first worker that may read and has something to do; undefined if none has. A failure belongs to that
   * worker, which then rests until the next cycle.
   */
  async #takeTurn(
    mayRead: (index: number) => boolean,
  ): Promise<{ readonly index: number; readonly step?: Step } | undefined> {
    const { workers, context } = this.#parts;
    for (const [index, worker] of workers.entries()) {
      if (this.#failed.has(worker) || !mayRead(index)) continue;
      try {
        const choose = () => worker.sweep.next(this.#view(), context.term);
        const step = await this.#take(worker.reader, choose);
        if (step === undefined) continue;
        return { index, step };
      } catch (error) {
        if (concernsAll(error, context.signal)) throw error;
        // A shorter window is started at the next turn.
        if (error instanceof WalkTooLargeError) return { index };
        this.#failed.add(worker);
        this.#counts.spareError = error;
        return { index };
      }
    }
    return undefined;
  }
}

function concernsAll(error: unknown, signal: AbortSignal): boolean {
  return signal.aborted || error instanceof LeaseLostError || failureOf(error) === "key_refused";
}
