import { addFigures } from "../../domain/figures.ts";
import { addSeconds } from "../../domain/order/instant.ts";
import { describeMessage } from "../../runtime/telemetry/errorFields.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { WalkForgottenError, WalkStalledError, WalkTooLargeError } from "../cycle/errors.ts";
import { applyReading, isLong, startReading } from "../cycle/readWindow.ts";
import type { ReadCounts, Reading, ReadPage } from "../cycle/readWindow.ts";
import type { Term } from "../leader/leadership.ts";
import { advanceLongWalk, beginLongWalk, recordWalked } from "../ledger/coverage.sql.ts";
import { askAboutClaims } from "./sweeps.ts";
import type { Job } from "./sweeps.ts";

/** The result of one step: what its page showed, and whether it completed its window. */
export interface Step {
  readonly counts: ReadCounts;
  readonly window: "under way" | "proved" | "unproved" | "read";
}

interface StepContext {
  readonly term: Term;
  readonly signal: AbortSignal;
}

const FAILURES_BEFORE_SHORTER = 3;

interface UnderWay {
  readonly job: Job;
  readonly reading: Reading;
  /** The record of a window that is applied page by page. */
  readonly coverageId: bigint | undefined;
}

/** Reads windows a page at a time. A window is one transaction; only one that cannot be cut is applied page by page. */
export class JobRunner {
  readonly #deps: PollDeps;
  readonly #readPage: ReadPage;
  #underWay: UnderWay | undefined;
  #begunIn: Term | undefined;
  #failures = 0;

  constructor(deps: PollDeps, readPage: ReadPage) {
    this.#deps = deps;
    this.#readPage = readPage;
  }

  /**
   * Reads one page of the window under way, or of the next one that `choose` names, and commits the window with its last
   * page. Undefined if there is nothing to do now. An error leaves the window as it was, to be continued at the next step;
   * after several failures in a row, a shorter one is begun.
   */
  async step(context: StepContext, choose: () => Promise<Job | undefined>): Promise<Step | undefined> {
    if (this.#begunIn !== context.term) this.forget();
    this.#begunIn = context.term;
    const underWay = this.#underWay ?? this.#begin(await choose());
    this.#underWay = underWay;
    if (underWay === undefined) return undefined;
    const { job, reading: before } = underWay;
    try {
      context.term.assertLeading();
      const reading = await this.#readPage(before, { ...job, signal: context.signal });
      const next = await this.#keepPage({ ...underWay, reading }, context.term);
      this.#failures = 0;
      this.#underWay = next.window === "under way" ? next.underWay : undefined;
      return { counts: addFigures(next.underWay.reading.counts, before.counts, -1), window: next.window };
    } catch (error) {
      if (context.signal.aborted) throw error;
      await this.#noteFailure(job, error);
      throw error;
    }
  }

  /** Forgets the window under way. */
  forget(): void {
    this.#underWay = undefined;
  }

  #begin(job: Job | undefined): UnderWay | undefined {
    if (job === undefined) return undefined;
    const { client, clock, pace } = this.#deps;
    const nowMs = clock.monotonicMs();
    const limit = client.promises.pageRowsMax;
    const reading = startReading(job.window, { limit, nowMs, open: job.open ?? false, pace });
    return { job, reading, coverageId: undefined };
  }

  async #keepPage(
    now: UnderWay,
    term: Term,
  ): Promise<{ readonly underWay: UnderWay; readonly window: Step["window"] }> {
    const { reading } = now;
    if (reading.walk.outcome !== undefined) return this.#commit(now, term);
    if (!isLong(reading)) return { underWay: now, window: "under way" };
    return { underWay: await this.#applyPage(now, term), window: "under way" };
  }

  /** Applies a page of a window that cannot be cut. */
  async #applyPage({ job, reading, coverageId }: UnderWay, { lease }: Term): Promise<UnderWay> {
    const { sourceId } = this.#deps.source;
    const { pages, window } = reading.walk;
    let id = coverageId;
    const after = await applyReading(this.#deps, reading, async (database, { counts, begunAt = 0n }) => {
      const { orders } = counts;
      const walk = { ...window, sourceId, sweep: job.sweep, begunAt, pages };
      if (coverageId === undefined) id = await beginLongWalk(database, lease, walk);
      else await advanceLongWalk(database, lease, { sourceId, coverageId, pages, orders, isProof: false });
    });
    return { job, reading: after, coverageId: id };
  }

  async #commit(now: UnderWay, term: Term) {
    const { client, clock, logger, marginSeconds } = this.#deps;
    const { job, reading } = now;
    const { window, proved: whole } = reading.walk;
    const { begunAt = 0n } = reading;
    const clocksAgree = client.providerClock.disagreementSeconds() === null;
    const isLate = begunAt >= addSeconds(window.until, marginSeconds);
    const isProof = whole && job.proves && clocksAgree && isLate;
    const after = await this.#commitWindow(now, { term, isProof });
    const { requests, orders } = after.counts;
    job.noteRead({ whole, requests, orders, nowMs: clock.monotonicMs() });
    if (!whole) {
      const sentence = "orders that share a timestamp change their order with each request; read again later";
      logger.warn({ sweep: job.sweep, orders }, sentence);
    }
    const result: Step["window"] = !job.proves ? "read" : isProof ? "proved" : "unproved";
    return { underWay: { ...now, reading: after }, window: result };
  }

  #commitWindow(
    { job, reading, coverageId }: UnderWay,
    { term, isProof }: { term: Term; isProof: boolean },
  ): Promise<Reading> {
    const { source, clock } = this.#deps;
    const { sourceId } = source;
    const { window, pages } = reading.walk;
    return applyReading(this.#deps, reading, async (database, after, decisions) => {
      const { requests, orders } = after.counts;
      if (coverageId !== undefined) {
        await advanceLongWalk(database, term.lease, { sourceId, coverageId, pages, orders, isProof });
      } else if (isProof) {
        const durationMs = Math.max(0, Math.round(clock.monotonicMs() - after.begunAtMs));
        const { begunAt = 0n, listed } = after;
        const walked = {
          ...window,
          sourceId,
          sweep: job.sweep,
          begunAt,
          requests,
          orders,
          durationMs,
          listed,
        };
        await recordWalked(database, term.lease, walked);
      }
      await job.commit?.(database, { reading: after, decisions, proved: isProof });
      await askAboutClaims(database, { sourceId, window, decisions });
    });
  }

  async #noteFailure(job: Job, error: unknown): Promise<void> {
    this.#failures += 1;
    const repeated = this.#failures >= FAILURES_BEFORE_SHORTER;
    if (repeated || error instanceof WalkTooLargeError) job.shorten();
    const hopeless = error instanceof WalkStalledError || error instanceof WalkForgottenError;
    if (repeated || hopeless || error instanceof WalkTooLargeError) this.forget();
    if (!(error instanceof WalkTooLargeError)) await job.noteFailure?.(error, describeMessage(error));
  }
}
