import { LeaseLostError } from "../../database/leases.sql.ts";
import { addFigures } from "../../domain/figures.ts";
import { failureOf } from "../../domain/source/errors.ts";
import type { Term } from "../leader/leadership.ts";
import { readWalked } from "../ledger/coverage.sql.ts";
import { finishRequests } from "../ledger/periodRequests.sql.ts";
import type { CycleState } from "../ledger/pollState.sql.ts";
import { JobRunner } from "../sweeps/runJobs.ts";
import type { Step } from "../sweeps/runJobs.ts";
import { NO_SINGLE_READS, readOrders } from "../sweeps/singleReads.ts";
import { makeHeadSweep, makeProofSweep, makeRequestSweep } from "../sweeps/sweeps.ts";
import type { HeadSweep, Job, ProofSweep, SweepView } from "../sweeps/sweeps.ts";
import type { PollDeps } from "./deps.ts";
import { WalkTooLargeError } from "./errors.ts";
import { makeReadPage, NOTHING_READ } from "./readWindow.ts";
import type { ReadCounts } from "./readWindow.ts";

/** What a cycle read, and the effect. */
export interface CycleCounts extends ReadCounts {
  /** Windows read to their end. */
  readonly windows: number;
  /** The number of them that could not be proved complete. */
  readonly unproved: number;
  readonly refetches: number;
  /** An error outside the head sweep, which was read anyway. */
  readonly spareError: unknown;
}

export interface CycleContext {
  readonly term: Term;
  readonly signal: AbortSignal;
  readonly state: CycleState;
  /** On the monotonic clock: when the next cycle is due. */
  readonly dueMs: number;
}

/** How many windows of the head sweep may be too large in one cycle; each next one is half as long. */
const TOO_LARGE_MAX = 12;
/** Per cycle, far more than the rate allows. One page is always read, so that a busy source makes progress, too. */
const PAGES_MAX = 1_000;
const PAUSE_MAX_MS = 60_000;
/**
 * With the pace `request` an interval is over after each page. A head sweep that closes reads a margin again, so what is
 * to be proved is read as a whole before the next one: so many pages, or as many as the head sweep had if that is more.
 */
const PROOF_PAGES = 12;

/**
 * Makes the reads of a cycle: the head sweep, then what is to be proved, then requests, as long as there is time. If that
 * has walked a window, another head sweep makes it a proof. Then orders are read singly.
 */
export function makeRunSweeps(deps: PollDeps): (context: CycleContext) => Promise<CycleCounts> {
  const readPage = makeReadPage(deps);
  const head = { sweep: makeHeadSweep(deps), runner: new JobRunner(deps, readPage) };
  const workers = [makeProofSweep(deps), makeRequestSweep(deps)].map((sweep) =>
    makeWorker(sweep, new JobRunner(deps, readPage)),
  );
  return (context) => new CycleReads(deps, { head, workers, context }).run();
}

interface CycleParts {
  readonly head: { readonly sweep: HeadSweep; readonly runner: JobRunner };
  readonly workers: readonly Worker[];
  readonly context: CycleContext;
}

/** The reads of one cycle under way. */
class CycleReads {
  readonly #deps: PollDeps;
  readonly #parts: CycleParts;
  #state: CycleState;
  #counts = NOTHING_READ;
  #windows = 0;
  #unproved = 0;

  constructor(deps: PollDeps, parts: CycleParts) {
    this.#deps = deps;
    this.#parts = parts;
    this.#state = parts.context.state;
  }

  async run(): Promise<CycleCounts> {
    const { context } = this.#parts;
    await this.#readHead(this.#state.hasWalked);
    const { walked, failure } = await this.#prove();
    // Where every read counts, the next cycle's head sweep does it.
    if (walked && this.#deps.pace === "cycle") await this.#readHead(true);
    // Whatever was read may ask for others.
    const areReadsDue = this.#state.areReadsDue || this.#counts.orders > 0 || walked;
    const read = areReadsDue ? await readOrders(this.#deps, context) : NO_SINGLE_READS;
    const { pool, source } = this.#deps;
    if (this.#state.hasRequests) await finishRequests(pool, context.term.lease, source.sourceId);
    return {
      ...this.#counts,
      applied: this.#counts.applied + read.applied,
      windows: this.#windows,
      unproved: this.#unproved,
      refetches: read.requests,
      spareError: failure ?? read.failure,
    };
  }

  #view(): SweepView {
    const { client, clock } = this.#deps;
    return {
      providerNow: client.providerClock.providerNow(),
      nowMs: clock.monotonicMs(),
      state: this.#state,
    };
  }

  async #take(runner: JobRunner, choose: () => Promise<Job | undefined>): Promise<Step | undefined> {
    const step = await runner.step(this.#parts.context, choose);
    if (step === undefined) return undefined;
    this.#counts = addFigures(this.#counts, step.counts);
    if (step.window !== "under way") this.#windows += 1;
    if (step.window === "unproved") this.#unproved += 1;
    return step;
  }

  /** `closes`: windows were walked before, which it makes proofs. */
  async #readHead(closes: boolean): Promise<void> {
    const { pool, logger, source } = this.#deps;
    const { head, context } = this.#parts;
    const nothing = { waits: false, reach: undefined };
    const { waits, reach } = closes ? await readWalked(pool, source.sourceId) : nothing;
    head.runner.forget();
    head.sweep.begin(this.#view(), { closes: waits, reach });
    const choose = () => Promise.resolve(head.sweep.next(this.#view(), context.term));
    for (let tooLarge = 0; ;) {
      try {
        const step = await this.#take(head.runner, choose);
        if (step === undefined) break;
        if (step.window === "read") tooLarge = 0;
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

  /** Reads what is to be proved, and requests, a page at a time until the next cycle is due. */
  async #prove(): Promise<{ readonly walked: boolean; readonly failure: unknown }> {
    let walked = false;
    let failure: unknown;
    const due = this.#listPagesDue();
    for (let pages = 0; pages < PAGES_MAX; pages += 1) {
      const isOver = this.#deps.clock.monotonicMs() >= this.#parts.context.dueMs;
      if (isOver && pages > 0 && this.#deps.pace === "cycle") break;
      const turn = await this.#takeTurn((index) => !isOver || (due[index] ?? 0) > 0);
      if (turn === undefined) break;
      due[turn.index] = (due[turn.index] ?? 0) - 1;
      walked ||= turn.step?.window === "proved";
      failure = turn.failure ?? failure;
    }
    return { walked, failure };
  }

  /** How many pages of each worker are read even if the next cycle is due; see PROOF_PAGES. */
  #listPagesDue(): number[] {
    const { pace } = this.#deps;
    const headPages = this.#counts.requests;
    const wholeProof = this.#state.safeThrough === undefined ? 1 : PROOF_PAGES;
    const proofPages = pace === "cycle" ? 1 : Math.max(headPages, wholeProof);
    return this.#parts.workers.map((_, index) => (index === 0 ? proofPages : 1));
  }

  /**
   * One page of the first worker that may read and has something to do; undefined if none has. A failure belongs to that
   * worker, which then pauses for a while.
   */
  async #takeTurn(
    mayRead: (index: number) => boolean,
  ): Promise<{ readonly index: number; readonly step?: Step; readonly failure?: unknown } | undefined> {
    const { clock, intervalSeconds } = this.#deps;
    const { workers, context } = this.#parts;
    for (const [index, worker] of workers.entries()) {
      if (worker.pausedUntilMs > clock.monotonicMs() || !mayRead(index)) continue;
      try {
        const choose = () => worker.sweep.next(this.#view(), context.term);
        const step = await this.#take(worker.runner, choose);
        if (step === undefined) continue;
        worker.failures = 0;
        return { index, step };
      } catch (error) {
        if (concernsAll(error, context.signal)) throw error;
        // A shorter window is started at the next turn.
        if (error instanceof WalkTooLargeError) return { index };
        worker.failures += 1;
        const pauseMs = intervalSeconds * 1_000 * 2 ** (worker.failures - 1);
        worker.pausedUntilMs = clock.monotonicMs() + Math.min(pauseMs, PAUSE_MAX_MS);
        return { index, failure: error };
      }
    }
    return undefined;
  }
}

interface Worker {
  readonly sweep: ProofSweep;
  readonly runner: JobRunner;
  failures: number;
  pausedUntilMs: number;
}

function makeWorker(sweep: ProofSweep, runner: JobRunner): Worker {
  return { sweep, runner, failures: 0, pausedUntilMs: Number.NEGATIVE_INFINITY };
}

function concernsAll(error: unknown, signal: AbortSignal): boolean {
  return signal.aborted || error instanceof LeaseLostError || failureOf(error) === "key_refused";
}
