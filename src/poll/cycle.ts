import { LeaseLostError } from "../database/leases.sql.ts";
import { isDatabaseAway } from "../database/databaseErrors.ts";
import { UnavailableError } from "../domain/errors.ts";
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
  noteUnserved,
  type CycleBegin,
  type CycleFailure,
  type CycleState,
} from "./pollState.sql.ts";
import { readOrders } from "./singleReads.ts";
import { makeHeadSweep, type HeadSweep } from "./headSweep.ts";
import { makePeriodSweep, makeProofSweep } from "./proofSweeps.ts";
import type { Sweep, SweepView } from "./sweeps.ts";
import {
  WalkStalledError,
  WalkTooLargeError,
  WindowReader,
  type PageRows,
  type ReadCounts,
  type Recorded,
} from "./windows.ts";

/*
 * What a leader does in each interval:
 * 1. learn the provider's time, and read the state of the source;
 * 2. read pages of the list: of the head sweep, which finds what is new and makes proofs of the windows that were walked
 *    before, of the proof sweep, and of requested periods, until the next cycle is due. If that has walked a window,
 *    another head sweep makes it a proof;
 * 3. read orders singly;
 * 4. the tasks that are due, and the record of the end.
 * A sweep that fails rests until the next cycle, and holds up nothing else. The sweeps choose the windows (sweeps.ts),
 * windows.ts reads them. Start at `makeCycle`.
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
  readonly signal: AbortSignal;
}

/**
 * Makes a leader's work in each interval: runs a cycle in this term, if one is due. Throws the error that ended it, after
 * recording it in mirror.poll_state; what failed in a sweep alone is recorded, too, and in the counts.
 */
export function makeCycle(deps: PollDeps): (run: CycleRun) => Promise<CycleResult> {
  const { client, clock, pool, logger } = deps;
  const { sourceId, mode, provider } = deps.source;
  const intervalMs = deps.intervalSeconds * 1_000;
  const { rateWindowMs = client.promises.rateWindowMs } = deps;
  // A new leader waits so long: the previous one may have used up the rate limit a moment ago, and nobody else knows. One
  // that was killed has its lease for longer than a window.
  const quietMs = deps.pace === "request" ? intervalMs : rateWindowMs;
  const readAll = makeReadAll(deps);
  const tasks = makeSourceTasks(deps);
  let begunTerm: Term | undefined;
  let openedTerm: Term | undefined;

  const end = (term: Term, failure: CycleFailure | "cut_short" | null) => {
    const clockErrorSeconds = client.providerClock.disagreementSeconds();
    return endCycle(pool, term.lease, { sourceId, failure, clockErrorSeconds });
  };

  async function runIfDue({ term, signal }: CycleRun): Promise<CycleResult> {
    const begun = await begin(term, signal);
    if (begun.kind !== "begun") return begun;
    if (begunTerm !== term) logger.info({ fence: String(term.lease.fence) }, "leads now");
    begunTerm = term;
    // Not before it is due by the database's clock, which has counted from a moment before this one.
    const dueMs = clock.monotonicMs() + intervalMs;
    await synchronizeClock(client, signal);
    if (openedTerm !== term) await tasks.open({ term, signal });
    openedTerm = term;
    const counts = await readAll({ term, signal, state: begun.state, dueMs });
    await end(term, counts.headError === undefined ? null : toFailure(counts.headError));
    await tasks.run({ term, signal });
    return { kind: "polled", counts, dueMs };
  }

  /** A source that was never polled starts now: from this instant on, and backwards to backfillSince. */
  async function begin(term: Term, signal: AbortSignal): Promise<CycleStart> {
    const { providerClock } = client;
    const { marginSeconds } = deps;
    const source = { sourceId, mode, provider };
    const pace = { intervalMs, quietMs: begunTerm === term ? 0 : quietMs, marginSeconds };
    for (;;) {
      const { databaseNow, ...begun } = await beginCycle(pool, term.lease, { ...source, ...pace });
      // In each cycle: either clock may be set meanwhile, and the database may be another server.
      providerClock.compareWith(databaseNow, clock.monotonicMs());
      if (begun.kind !== "never_polled") return begun;
      await synchronizeClock(client, signal);
      const now = floorTo(providerClock.providerNow(), BOUND_GRANULE);
      const since = floorTo(resolveSince(deps.backfillSince, now), BOUND_GRANULE);
      const historySince = since < now ? since : now;
      await beginPolling(pool, term.lease, { sourceId, historySince, polledThrough: now });
    }
  }

  return async (context) => {
    const { term, signal } = context;
    try {
      return await runIfDue(context);
    } catch (error) {
      // Recorded however the cycle ended: the next leader reads here how long ago the last request was. endCycle keeps the
      // first error of a cycle.
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

/** What a cycle read, and the effect. */
export interface CycleCounts extends ReadCounts {
  /** Windows read to their end. */
  windows: number;
  /** The number of them that could not be proved complete. */
  unproved: number;
  /** Orders read singly. */
  refetches: number;
  /** What stopped the head sweep. */
  headError: unknown;
  /** What stopped another sweep, or the single reads. */
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
    headError: undefined,
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

/** Per cycle, far more than the rate allows. */
const PAGES_MAX = 1_000;
/** Of so many pages one is for the proof and the periods, however much the head has to read. */
const OTHERS_TURN = 3;
/**
 * With the pace `request` an interval is over after each page. A head sweep that closes reads a margin again, so what is
 * to be proved is read as a whole before the next one: so many pages, or as many as the head sweep had if that is more.
 */
const PROOF_PAGES = 12;
/** A window fails that often before it is halved: once may be chance. */
const FAILURES_BEFORE_SHORTER = 2;
/** A list that has not answered for so long is away: then no window is left out. */
const ANSWERED_MS = 300_000;

/** Makes the reads of a cycle: steps 2 and 3. */
function makeReadAll(deps: PollDeps): (context: CycleContext) => Promise<CycleCounts> {
  const pageRows: PageRows = { rows: deps.client.promises.pageRowsMax };
  const work = <One extends Sweep>(sweep: One): Work<One> => {
    return { sweep, reader: new WindowReader(deps, pageRows), term: undefined, failures: 0 };
  };
  const works = {
    head: work(makeHeadSweep(deps)),
    proof: work(makeProofSweep(deps)),
    periods: work(makePeriodSweep(deps)),
    begunMs: deps.clock.monotonicMs(),
    answeredMs: Number.NEGATIVE_INFINITY,
  };
  return (context) => new CycleReads(deps, works, context).run();
}

/** A sweep with its window under way, which goes on in the next cycle of a term. */
interface Work<One extends Sweep = Sweep> {
  readonly sweep: One;
  readonly reader: WindowReader;
  term: Term | undefined;
  /** Of the window under way, in a row. */
  failures: number;
}

interface Works {
  readonly head: Work<HeadSweep>;
  readonly proof: Work;
  readonly periods: Work;
  readonly begunMs: number;
  /** When the list last answered. */
  answeredMs: number;
}

/** The reads of one cycle under way. */
class CycleReads {
  readonly #deps: PollDeps;
  readonly #works: Works;
  readonly #context: CycleContext;
  #state: CycleState;
  readonly #counts = countNothing();
  /** What failed rests until the next cycle. */
  readonly #resting = new Set<Work>();
  /** Pages of this cycle. */
  readonly #pages = new Map<Work, number>();
  #hasWalked = false;

  constructor(deps: PollDeps, works: Works, context: CycleContext) {
    this.#deps = deps;
    this.#works = works;
    this.#context = context;
    this.#state = context.state;
  }

  async run(): Promise<CycleCounts> {
    const { head, proof, periods } = this.#works;
    await this.#beginHead(this.#state.hasWalked);
    await this.#readPages([head, proof, periods]);
    // Where every read counts, or the next cycle is due, that one's head sweep makes the proofs.
    const closes = this.#hasWalked && this.#deps.pace === "cycle" && !this.#isOver();
    if (closes && !this.#resting.has(head)) {
      await this.#beginHead(true);
      await this.#readPages([head]);
    }
    // Reads may have asked for single reads.
    if (this.#state.areReadsDue || this.#counts.orders > 0 || this.#hasWalked) {
      const failure = await readOrders(this.#deps, { ...this.#context, counts: this.#counts });
      this.#counts.spareError ??= failure;
    }
    const { pool, source } = this.#deps;
    const { lease } = this.#context.term;
    if (this.#state.hasRequests) await finishRequests(pool, lease, source.sourceId);
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
    this.#works.head.sweep.begin(this.#view(), this.#context.term, walked);
  }

  /** Reads pages, the first work's before the others', until nothing is left to read or the next cycle is due. */
  async #readPages(works: readonly Work[]): Promise<void> {
    const [first, ...others] = works;
    for (let page = 1; page <= PAGES_MAX && first !== undefined; page += 1) {
      const isOthersTurn = page % OTHERS_TURN === 0 && this.#deps.pace === "cycle";
      const inTurn = isOthersTurn ? [...others, first] : works;
      let hasRead = false;
      for (const work of inTurn) hasRead ||= this.#mayRead(work) && (await this.#readPage(work));
      if (!hasRead) return;
    }
  }

  /** The head is read to its end in each cycle; the others for as long as there is time, and a share of the head's pages. */
  #mayRead(work: Work): boolean {
    const { head, proof } = this.#works;
    if (this.#resting.has(work)) return false;
    if (work === head || !this.#isOver()) return true;
    const headPages = this.#pages.get(head) ?? 0;
    const share = Math.max(1, Math.floor(headPages / (OTHERS_TURN - 1)));
    const wholeProof = this.#state.safeThrough === null ? 1 : Math.max(headPages, PROOF_PAGES);
    const isWhole = this.#deps.pace === "request" && work === proof;
    return (this.#pages.get(work) ?? 0) < (isWhole ? wholeProof : share);
  }

  /** Reads a page of a sweep; false if it has nothing to read. A failure is the sweep's own, unless it concerns all. */
  async #readPage(work: Work): Promise<boolean> {
    const { reader, sweep } = work;
    const { term } = this.#context;
    if (work.term !== term) reader.forget();
    work.term = term;
    try {
      if (reader.job === undefined) {
        const job = await sweep.next(this.#view(), term);
        if (job === undefined) return false;
        reader.begin(job);
      }
      const read = await reader.readPage({ ...this.#context, counts: this.#counts });
      this.#works.answeredMs = this.#deps.clock.monotonicMs();
      if (read !== undefined) this.#noteRecorded(work, await reader.job?.record(read));
      work.failures = 0;
    } catch (error) {
      if (concernsAll(error, this.#context.signal)) throw error;
      await this.#noteFailure(work, error);
    }
    this.#pages.set(work, (this.#pages.get(work) ?? 0) + 1);
    return true;
  }

  #noteRecorded({ reader, sweep }: Work, recorded: Recorded | undefined): void {
    reader.forget();
    this.#counts.windows += 1;
    if (recorded === "unproved") this.#counts.unproved += 1;
    this.#hasWalked ||= recorded === "proved";
    if (sweep === this.#works.head.sweep) this.#learnProgress();
  }

  #learnProgress(): void {
    const progress = this.#works.head.sweep.progress();
    if (progress === undefined) return;
    const { doubted, ...reached } = progress;
    const wasDoubted = this.#state.isListDoubted;
    this.#state = { ...this.#state, ...reached, isListDoubted: doubted === null ? wasDoubted : doubted > 0 };
    if (this.#state.isListDoubted && !wasDoubted) {
      const sentence =
        "the provider's list omits orders that the mirror has; nothing is proved until that is explained";
      this.#deps.logger.error(sentence);
    }
  }

  /**
   * A window that fails is continued in the next cycle; if it fails again, or has stalled, it is halved, down to seconds.
   * What fails even then is left out: the sweep goes on behind it, and a condition names it.
   */
  async #noteFailure(work: Work, error: unknown): Promise<void> {
    const { clock, logger, pool, source } = this.#deps;
    const { term } = this.#context;
    const { reader, sweep } = work;
    const { job } = reader;
    if (job === undefined) return this.#rest(work, error);
    if (error instanceof WalkTooLargeError) {
      sweep.shorten(job);
      return reader.forget();
    }
    work.failures += 1;
    await sweep.noteFailure?.(job, term, describeMessage(error));
    // Its walk has asked several times already, and begins anew; as many requests again are for the next cycle.
    const isStalled = error instanceof WalkStalledError;
    if (isStalled) this.#rest(work, error);
    else if (work.failures < FAILURES_BEFORE_SHORTER) return this.#rest(work, error);
    reader.forget();
    const nowMs = clock.monotonicMs();
    const { answeredMs, begunMs } = this.#works;
    const lately = nowMs - ANSWERED_MS;
    // Unless the list is away, the fault is found at once.
    const isAway = Math.max(answeredMs, begunMs) < lately;
    if (sweep.shorten(job)) return isAway || this.#isOver() ? this.#rest(work, error) : undefined;
    const skipped = answeredMs < lately ? undefined : sweep.skip(job, nowMs);
    if (skipped === undefined) return this.#rest(work, error);
    work.failures = 0;
    logger.warn({ err: error }, "the list cannot serve a window; reading goes on behind it");
    const unserved = { sourceId: source.sourceId, window: skipped, error: describeMessage(error) };
    await noteUnserved(pool, term.lease, unserved);
  }

  #rest(work: Work, error: unknown): void {
    this.#resting.add(work);
    if (work === this.#works.head) this.#counts.headError = error;
    else this.#counts.spareError = error;
  }
}

/** Whether an error ends the cycle: nothing else could be read, either. */
function concernsAll(error: unknown, signal: AbortSignal): boolean {
  const isOurs =
    error instanceof LeaseLostError || error instanceof UnavailableError || isDatabaseAway(error);
  return signal.aborted || isOurs || failureOf(error) === "key_refused";
}
