import { LeaseLostError } from "../database/leases.sql.ts";
import { isDatabaseAway } from "../database/databaseErrors.ts";
import { UnavailableError } from "../domain/errors.ts";
import { addSeconds, floorTo } from "../domain/order/instant.ts";
import { failureOf } from "../domain/source/errors.ts";
import { BOUND_GRANULE, type Window } from "../domain/window/window.ts";
import { describeMessage } from "../process/telemetry/errorFields.ts";
import { readWalked } from "./coverage.sql.ts";
import type { Term } from "./leadership.ts";
import { finishRequests } from "./periodRequests.sql.ts";
import type { PollDeps } from "./pollDeps.ts";
import { noteUnserved, type CycleState } from "./pollState.sql.ts";
import { readOrders } from "./singleReads.ts";
import { makeHeadSweep, type HeadSweep } from "./sweeps/headSweep.ts";
import { makePeriodSweep, makeProofSweep } from "./sweeps/proofSweeps.ts";
import type { Sweep, SweepView } from "./sweeps/sweep.ts";
import {
  readPage,
  startReading,
  WalkStalledError,
  type PageRows,
  type ReadCounts,
  type Reading,
  type WindowJob,
} from "./sweeps/windows.ts";

/*
 * The reads of a cycle:
 * 1. pages of the list: of the head sweep, which finds what is new and makes proofs of the windows that were walked
 *    before, of the proof sweep, and of requested periods, until the next cycle is due. If that has walked a window,
 *    another head sweep makes it a proof;
 * 2. orders singly.
 * A sweep that fails rests until the next cycle, and holds up nothing else. The sweeps choose the windows, windows.ts
 * reads them. Start at `CycleReads.run`.
 */

/** Counts of what a cycle read, and of the effect. */
export interface CycleCounts extends ReadCounts {
  /** Windows read to their end. */
  windows: number;
  /** The number of them that could not be proved complete. */
  unproved: number;
  /** Orders read singly. */
  refetches: number;
  /** The error that stopped the head sweep. */
  headError: unknown;
  /** The error that stopped another sweep, or the single reads. */
  spareError: unknown;
}

export function countNothing(): CycleCounts {
  const reads = { requests: 0, orders: 0, applied: 0, unreadable: 0 };
  return { ...reads, windows: 0, unproved: 0, refetches: 0, headError: undefined, spareError: undefined };
}

interface CycleContext {
  readonly term: Term;
  readonly signal: AbortSignal;
  readonly state: CycleState;
  /** On the monotonic clock: when the next cycle is due. */
  readonly dueMs: number;
}

/** Per cycle, far more than the rate allows. */
const PAGES_MAX = 1_000;
/** The pages of which one is for the proof and the periods, however much the head has to read. */
const OTHERS_TURN = 3;
/**
 * With the pace `request` an interval is over after each page. A head sweep that closes reads a margin again, so what
 * is to be proved is read as a whole before the next one: so many pages, or as many as the head sweep had if that is
 * more.
 */
const PROOF_PAGES = 12;
/** A window fails that often before it is halved: once may be chance. */
const FAILURES_BEFORE_SHORTER = 2;
/** The time to come that a list is asked for to learn whether it answers. */
const EMPTY_SECONDS = 60;
const NEVER_MS = Number.NEGATIVE_INFINITY;

/** A sweep with its window under way, which goes on in the next cycle of a term. */
interface Lane<One extends Sweep = Sweep> {
  readonly sweep: One;
  reading: Reading | undefined;
  term: Term | undefined;
  /** Failed pages, each of which a page that comes takes back; at most FAILURES_BEFORE_SHORTER. */
  failures: number;
  /** Time of the last failure. */
  failedMs: number;
  /** Pages of this cycle. */
  pages: number;
  /** A failed sweep rests until the next cycle. */
  rests: boolean;
}

interface Lanes {
  readonly head: Lane<HeadSweep>;
  readonly proof: Lane;
  readonly periods: Lane;
  readonly pageRows: PageRows;
  /** Time of the list's last answer. */
  answeredMs: number;
}

/** Makes the reads of a cycle, with the sweeps that go on from one cycle to the next. */
export function makeReadAll(deps: PollDeps): (context: CycleContext) => Promise<CycleCounts> {
  const lane = <One extends Sweep>(sweep: One): Lane<One> => {
    return {
      sweep,
      reading: undefined,
      term: undefined,
      failures: 0,
      failedMs: NEVER_MS,
      pages: 0,
      rests: false,
    };
  };
  const lanes: Lanes = {
    head: lane(makeHeadSweep(deps)),
    proof: lane(makeProofSweep(deps)),
    periods: lane(makePeriodSweep(deps)),
    pageRows: { rows: deps.client.promises.pageRowsMax },
    answeredMs: NEVER_MS,
  };
  return (context) => new CycleReads(deps, lanes, context).run();
}

/** The reads of one cycle under way. */
class CycleReads {
  readonly #deps: PollDeps;
  readonly #lanes: Lanes;
  readonly #context: CycleContext;
  #state: CycleState;
  readonly #counts = countNothing();
  #hasWalked = false;
  #isListAway = false;

  constructor(deps: PollDeps, lanes: Lanes, context: CycleContext) {
    this.#deps = deps;
    this.#lanes = lanes;
    this.#context = context;
    this.#state = context.state;
  }

  async run(): Promise<CycleCounts> {
    const { head, proof, periods } = this.#lanes;
    for (const lane of [head, proof, periods]) Object.assign(lane, { pages: 0, rests: false });
    await this.#beginHead(this.#state.hasWalked);
    await this.#readPages([head, proof, periods]);
    // Where every read counts, or the next cycle is due, that one's head sweep makes the proofs.
    if (this.#hasWalked && this.#deps.pace === "cycle" && !this.#isOver()) {
      await this.#beginHead(true);
      await this.#readPages([head]);
    }
    // Reads may have asked for single reads.
    if (this.#state.areReadsDue || this.#counts.orders > 0 || this.#hasWalked) {
      const failure = await readOrders(this.#deps, { ...this.#context, counts: this.#counts });
      this.#counts.spareError ??= failure;
    }
    const { pool, source } = this.#deps;
    if (this.#state.hasRequests) await finishRequests(pool, this.#context.term.lease, source.sourceId);
    return this.#counts;
  }

  #view(): SweepView {
    const { client, clock } = this.#deps;
    const providerNow = client.providerClock.providerNow();
    return { providerNow, nowMs: clock.monotonicMs(), state: this.#state };
  }

  #isOver(): boolean {
    return this.#deps.clock.monotonicMs() >= this.#context.dueMs;
  }

  /** `closes`: windows were walked before, which it makes proofs. */
  async #beginHead(closes: boolean): Promise<void> {
    const { pool, source } = this.#deps;
    const walked = closes ? await readWalked(pool, source.sourceId) : { upTo: null, reach: null };
    this.#lanes.head.sweep.begin(this.#view(), this.#context.term, walked);
  }

  /** Reads pages, the first lane's before the others', until nothing is left to read or the next cycle is due. */
  async #readPages(lanes: readonly Lane[]): Promise<void> {
    const [first, ...others] = lanes;
    for (let page = 1; page <= PAGES_MAX && first !== undefined; page += 1) {
      const isOthersTurn = page % OTHERS_TURN === 0 && this.#deps.pace === "cycle";
      const inTurn = isOthersTurn ? [...others, first] : lanes;
      let hasRead = false;
      for (const lane of inTurn) hasRead ||= this.#mayRead(lane) && (await this.#readPage(lane));
      if (!hasRead) return;
    }
  }

  /**
   * The head is read to its end in each cycle; the others for as long as there is time, and a share of the head's
   * pages.
   */
  #mayRead(lane: Lane): boolean {
    const { head, proof } = this.#lanes;
    if (lane.rests) return false;
    if (lane === head || !this.#isOver()) return true;
    const share = Math.max(1, Math.floor(head.pages / (OTHERS_TURN - 1)));
    const wholeProof = this.#state.safeThrough === null ? 1 : Math.max(head.pages, PROOF_PAGES);
    const isWhole = this.#deps.pace === "request" && lane === proof;
    return lane.pages < (isWhole ? wholeProof : share);
  }

  /** Reads a page of a sweep; false if it has nothing to read. A failure is the sweep's own, unless it concerns all. */
  async #readPage(lane: Lane): Promise<boolean> {
    const { term, signal } = this.#context;
    const { pageRows } = this.#lanes;
    if (lane.term !== term) lane.reading = undefined;
    lane.term = term;
    try {
      if (lane.reading === undefined) {
        const job = await lane.sweep.next(this.#view(), term);
        if (job === undefined) return false;
        lane.reading = startReading(this.#deps, job, pageRows);
      }
      const context = { term, signal, pageRows, counts: this.#counts };
      lane.reading = await readPage(this.#deps, lane.reading, context);
      this.#lanes.answeredMs = this.#deps.clock.monotonicMs();
      if (lane.reading.walk.outcome !== undefined) await this.#end(lane, lane.reading);
      lane.failures = Math.max(0, lane.failures - 1);
    } catch (error) {
      if (concernsAll(error, signal)) throw error;
      await this.#noteFailure(lane, error);
    }
    lane.pages += 1;
    return true;
  }

  /** Records a window that was read to its end; one with too many pages is read in parts. */
  async #end(lane: Lane, { job, walk, ...read }: Reading): Promise<void> {
    const isRead = walk.outcome?.kind === "read";
    if (!isRead) lane.sweep.span.shorten(partOf(job));
    const recorded = isRead ? await job.record(read) : undefined;
    lane.reading = undefined;
    if (recorded === undefined) return;
    this.#counts.windows += 1;
    if ("isProof" in recorded) {
      if (recorded.isProof) this.#hasWalked = true;
      else this.#counts.unproved += 1;
      return;
    }
    const isNews = recorded.isListDoubted && !this.#state.isListDoubted;
    this.#state = { ...this.#state, ...recorded };
    const sentence =
      "the provider's list omits orders that the mirror has; nothing is proved until that is explained";
    if (isNews) this.#deps.logger.error(sentence);
  }

  /**
   * A window that fails is continued in the next cycle; if it fails again, or has stalled, it is halved, down to
   * seconds, within the same cycle. What fails even then is left out: the sweep goes on behind it, and a condition
   * names it. While the list answers nothing at all, no window is to blame, and each stays as it is.
   */
  async #noteFailure(lane: Lane, error: unknown): Promise<void> {
    const { clock, logger, pool, source } = this.#deps;
    const { span, rest } = lane.sweep;
    const job = lane.reading?.job;
    if (job === undefined) return this.#rest(lane, error);
    const hasAnswered = this.#lanes.answeredMs >= lane.failedMs;
    lane.failures = Math.min(lane.failures + 1, FAILURES_BEFORE_SHORTER);
    lane.failedMs = clock.monotonicMs();
    const message = describeMessage(error);
    await job.noteFailure?.(message);
    // Its walk has asked several times already, and begins anew; as many requests again are for the next cycle.
    const isStalled = error instanceof WalkStalledError;
    if (!isStalled && lane.failures < FAILURES_BEFORE_SHORTER) return this.#rest(lane, error);
    if (!isStalled && !hasAnswered && !(await this.#listAnswers())) return this.#rest(lane, error);
    lane.reading = undefined;
    const window = partOf(job);
    const isShorter = span.shorten(window);
    const isLeftOut = !isShorter && rest !== undefined;
    if (isStalled || this.#isOver() || !(isShorter || isLeftOut)) this.#rest(lane, error);
    if (!isLeftOut) return;
    rest.add(window, lane.failedMs);
    logger.warn({ err: error }, "the list cannot serve a window; reading goes on behind it");
    const unserved = { sourceId: source.sourceId, window, error: message };
    await noteUnserved(pool, this.#context.term.lease, unserved);
  }

  /**
   * Asks whether the list answers at all: for the minute to come, in which no order can be the cause of a failure. A
   * list that does not answer is not asked again in this cycle.
   */
  async #listAnswers(): Promise<boolean> {
    if (this.#isListAway) return false;
    const { client, clock } = this.#deps;
    const { signal } = this.#context;
    const since = floorTo(client.providerClock.providerNow(), BOUND_GRANULE);
    const request = { since, until: addSeconds(since, EMPTY_SECONDS), offset: 0, limit: 1 };
    try {
      await client.listWindow(request, { priority: "poll", signal });
    } catch (error) {
      if (concernsAll(error, signal)) throw error;
      this.#isListAway = true;
      return false;
    }
    this.#counts.requests += 1;
    this.#lanes.answeredMs = clock.monotonicMs();
    return true;
  }

  #rest(lane: Lane, error: unknown): void {
    lane.rests = true;
    if (lane === this.#lanes.head) this.#counts.headError = error;
    else this.#counts.spareError = error;
  }
}

/** Returns the part of a window that it is to cover: an open one reaches beyond the present. */
function partOf({ window, openFrom }: WindowJob): Window {
  return { since: window.since, until: openFrom ?? window.until };
}

/** Whether an error ends the cycle: nothing else could be read, either. */
function concernsAll(error: unknown, signal: AbortSignal): boolean {
  const isOurs =
    error instanceof LeaseLostError || error instanceof UnavailableError || isDatabaseAway(error);
  return signal.aborted || isOurs || failureOf(error) === "key_refused";
}
