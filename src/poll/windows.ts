import { createHash } from "node:crypto";
import type { Reads } from "../apply/apply.ts";
import { isChange, leavesClaim, type Decision } from "../apply/applySubjects.ts";
import type { Queryable } from "../database/database.ts";
import { OrderMirrorError } from "../domain/errors.ts";
import { addSeconds, NANOS_PER_SECOND, type Instant } from "../domain/order/instant.ts";
import type { ListedOrder } from "../domain/source/orderSource.ts";
import type { WalkRow } from "../domain/window/scan.ts";
import { nextRequest, receivePage, startWalk, type Walk } from "../domain/window/walk.ts";
import type { Window } from "../domain/window/window.ts";
import { describeMessage } from "../process/telemetry/errorFields.ts";
import { advanceLongWalk, beginLongWalk, recordWalked, WalkForgottenError } from "./coverage.sql.ts";
import type { Term } from "./leadership.ts";
import type { PollDeps } from "./pollDeps.ts";
import { requestUnconfirmed } from "./refetches.sql.ts";

/*
 * Reads windows a page at a time, so that reading may pause between two pages for any length of time. A window is one
 * transaction: its pages are applied, and it is recorded as walked, with its last page. Only a window that cannot be cut
 * and has more pages than one transaction takes is applied page by page. Start at `WindowReader.step`.
 */

/** A window to read, and what to do in the transaction that applies it. */
export interface Job {
  readonly window: Window;
  readonly sweep: "head" | "proof" | "backfill" | "verify";
  /** Also its priority. */
  readonly via: "poll" | "backfill" | "verify";
  /** It has no end, so that no order can leave it. */
  readonly open?: boolean;
  /** Its walk may prove it; otherwise `commit` records it. */
  readonly proves: boolean;
  readonly commit?: (database: Queryable, read: ReadJob) => Promise<void>;
  /** It failed; it will be retried. */
  readonly noteFailure?: (message: string) => Promise<void>;
  /** It was committed. */
  readonly noteRead: (result: { whole: boolean; requests: number; orders: number; nowMs: number }) => void;
  /** It had too many pages, or failed several times. */
  readonly shorten: () => void;
}

interface ReadJob {
  readonly reading: Reading;
  readonly decisions: readonly Decision[];
  readonly proved: boolean;
}

/** A window that is being read. */
interface Reading {
  readonly job: Job;
  readonly walk: Walk;
  /** Provider-clock instant at which the first page was requested, a lower bound; undefined before that. */
  readonly begunAt: Instant | undefined;
  readonly begunAtMs: number;
  /** Different orders, or states of orders, on its pages. */
  readonly orders: number;
  /** What its pages showed and is not applied yet. */
  readonly unapplied: readonly Reads[];
  /** References on its pages; null if it has so many pages that they are applied one by one. */
  readonly listed: readonly string[] | null;
  /** The record of a window that is applied page by page. */
  readonly coverageId: bigint | undefined;
}

/** What was read, and the effect. */
export interface ReadCounts {
  requests: number;
  /** Different orders, or states of orders, on the pages. */
  orders: number;
  /** The number of them that changed the mirror. */
  applied: number;
  /** Elements that could not be read as orders; they are in quarantine. */
  unreadable: number;
}

/** The result of one step: whether its page completed the window, and whether that proves it if it may. */
export type Step = "under way" | "proved" | "unproved" | "read";

interface StepContext {
  readonly term: Term;
  readonly signal: AbortSignal;
  readonly counts: ReadCounts;
}

/** What one transaction takes, and memory holds; a larger window is better read in parts. */
const PAGES_MAX = 30;
/** A window this short cannot be read in parts, so it may take as many pages as an import of a million orders. */
const INDIVISIBLE_NANOS = 2n * NANOS_PER_SECOND;
const INDIVISIBLE_PAGES_MAX = 5_000;
const FAILURES_BEFORE_SHORTER = 3;

/** Reads one window after the other. */
export class WindowReader {
  readonly #deps: PollDeps;
  #reading: Reading | undefined;
  #begunIn: Term | undefined;
  #failures = 0;

  constructor(deps: PollDeps) {
    this.#deps = deps;
  }

  /**
   * Reads one page of the window under way, or of the next one that `choose` names, and commits the window with its last
   * page. Undefined if there is nothing to do now. An error leaves the window as it was, to be continued at the next step;
   * after several failures in a row, a shorter one is begun.
   */
  async step(context: StepContext, choose: () => Promise<Job | undefined>): Promise<Step | undefined> {
    if (this.#begunIn !== context.term) this.forget();
    this.#begunIn = context.term;
    this.#reading ??= this.#begin(await choose());
    if (this.#reading === undefined) return undefined;
    const { job } = this.#reading;
    try {
      context.term.assertLeading();
      const reading = await this.#readPage(this.#reading, context);
      const step = reading.walk.outcome === undefined ? "under way" : await this.#commit(reading, context);
      if (step !== "under way") this.forget();
      else this.#reading = reading.walk.pages < PAGES_MAX ? reading : await this.#applyPage(reading, context);
      this.#failures = 0;
      return step;
    } catch (error) {
      if (!context.signal.aborted) await this.#noteFailure(job, error);
      throw error;
    }
  }

  /** Forgets the window under way. */
  forget(): void {
    this.#reading = undefined;
  }

  #begin(job: Job | undefined): Reading | undefined {
    if (job === undefined) return undefined;
    const { client, clock, pace } = this.#deps;
    const { window, open = false } = job;
    const isDivisible = window.until - window.since > INDIVISIBLE_NANOS;
    // Half a minute later, so many orders have left a window that its next page would hardly ever overlap this one.
    const pagesMax = !isDivisible ? INDIVISIBLE_PAGES_MAX : pace === "request" ? 1 : PAGES_MAX;
    return {
      job,
      walk: startWalk({ window, limit: client.promises.pageRowsMax, pagesMax, open }),
      begunAt: undefined,
      begunAtMs: clock.monotonicMs(),
      orders: 0,
      unapplied: [],
      listed: [],
      coverageId: undefined,
    };
  }

  async #readPage(before: Reading, { signal, counts }: StepContext): Promise<Reading> {
    const { source, client, marginSeconds } = this.#deps;
    const { via } = before.job;
    const request = nextRequest(before.walk);
    if (request === undefined) throw new TypeError("the window has been read");
    const page = await client.listWindow(request, { priority: via, signal });
    const rows = page.elements.map(toRow);
    const walk = receivePage(before.walk, { rows, hasMore: page.hasMore, limit: page.limit });
    assertWalks(walk);
    const elements = walk.fresh.flatMap((index) => page.elements[index] ?? []);
    const snapshots = elements.flatMap((one) => (one.kind === "order" ? [one.snapshot] : []));
    const unreadable = elements.flatMap((one) => (one.kind === "unreadable" ? [one] : []));
    const time = { requestedAt: page.requestedAt, marginSeconds };
    counts.requests += 1;
    counts.orders += snapshots.length;
    counts.unreadable += unreadable.length;
    return {
      ...before,
      walk,
      begunAt: before.begunAt ?? page.requestedAt,
      orders: before.orders + snapshots.length,
      unapplied: [...before.unapplied, { sourceId: source.sourceId, via, snapshots, unreadable, time }],
      listed:
        before.listed === null || walk.pages > PAGES_MAX
          ? null
          : [...before.listed, ...elements.flatMap((one) => referenceOf(one) ?? [])],
    };
  }

  /** Applies what is not applied yet, together with `alongside`. */
  async #apply(
    { unapplied }: Reading,
    counts: ReadCounts,
    alongside: (database: Queryable, decisions: readonly Decision[]) => Promise<void>,
  ): Promise<void> {
    const decisions = await this.#deps.apply.applyReads(unapplied, alongside);
    counts.applied += decisions.filter(isChange).length;
  }

  /** Applies a page of a window that cannot be cut. */
  async #applyPage(reading: Reading, { term, counts }: StepContext): Promise<Reading> {
    const { sourceId } = this.#deps.source;
    const { job, orders, begunAt = 0n, walk } = reading;
    let { coverageId } = reading;
    await this.#apply(reading, counts, async (database) => {
      const { pages, window } = walk;
      const long = { ...window, sourceId, sweep: job.sweep, begunAt, pages };
      if (coverageId === undefined) coverageId = await beginLongWalk(database, term.lease, long);
      else {
        const page = { sourceId, coverageId, pages, orders, isProof: false };
        await advanceLongWalk(database, term.lease, page);
      }
    });
    return { ...reading, unapplied: [], coverageId };
  }

  async #commit(reading: Reading, context: StepContext): Promise<Step> {
    const { client, clock, logger, marginSeconds } = this.#deps;
    const { job, orders, begunAt = 0n } = reading;
    const { window, proved: whole, pages } = reading.walk;
    const clocksAgree = client.providerClock.disagreementSeconds() === null;
    const isLate = begunAt >= addSeconds(window.until, marginSeconds);
    const isProof = whole && job.proves && clocksAgree && isLate;
    await this.#commitWindow(reading, { ...context, isProof });
    job.noteRead({ whole, requests: pages, orders, nowMs: clock.monotonicMs() });
    if (!whole) {
      const sentence = "orders that share a timestamp change their order with each request; read again later";
      logger.warn({ sweep: job.sweep, orders }, sentence);
    }
    return !job.proves ? "read" : isProof ? "proved" : "unproved";
  }

  #commitWindow(
    reading: Reading,
    { term: { lease }, counts, isProof }: StepContext & { isProof: boolean },
  ): Promise<void> {
    const { source, clock } = this.#deps;
    const { sourceId } = source;
    const { job, orders, coverageId, listed, begunAt = 0n, begunAtMs } = reading;
    const { window, pages } = reading.walk;
    return this.#apply(reading, counts, async (database, decisions) => {
      if (coverageId !== undefined) {
        await advanceLongWalk(database, lease, { sourceId, coverageId, pages, orders, isProof });
      } else if (isProof) {
        const durationMs = Math.max(0, Math.round(clock.monotonicMs() - begunAtMs));
        const walked = { ...window, sourceId, sweep: job.sweep, begunAt, requests: pages, orders };
        await recordWalked(database, lease, { ...walked, durationMs, listed });
      }
      await job.commit?.(database, { reading, decisions, proved: isProof });
      // The mirror has them in a later state of the window than the pages showed: one of the two is wrong.
      const references = decisions
        .filter((decision) => leavesClaim(decision) && decision.storedVersion < window.until)
        .flatMap(({ reference }) => reference ?? []);
      await requestUnconfirmed(database, { sourceId, references });
    });
  }

  async #noteFailure(job: Job, error: unknown): Promise<void> {
    this.#failures += 1;
    const repeated = this.#failures >= FAILURES_BEFORE_SHORTER;
    const isTooLarge = error instanceof WalkTooLargeError;
    if (repeated || isTooLarge) job.shorten();
    const isHopeless = error instanceof WalkStalledError || error instanceof WalkForgottenError;
    if (repeated || isTooLarge || isHopeless) this.forget();
    if (!isTooLarge) await job.noteFailure?.(describeMessage(error));
  }
}

/** Converts an element of a page to a row of a walk. */
function toRow(element: ListedOrder): WalkRow {
  if (element.kind === "unreadable") {
    const key = createHash("sha256").update(element.raw).digest("hex");
    return { key, version: undefined };
  }
  const { fields, hash, version } = element.snapshot;
  return { key: `${hash} ${version} ${fields.reference}`, version };
}

function referenceOf(element: ListedOrder): string | null {
  return element.kind === "order" ? element.snapshot.fields.reference : element.reference;
}

function assertWalks({ outcome }: Walk): void {
  if (outcome?.kind === "too_large") {
    throw new WalkTooLargeError("the window has more pages than one transaction takes");
  }
  if (outcome?.kind === "stalled") {
    throw new WalkStalledError("the provider says that there are more orders but does not list them");
  }
}

/** A window has more pages than one transaction takes; a shorter window has fewer. Not a fault of the provider. */
export class WalkTooLargeError extends OrderMirrorError {
  override readonly name = "WalkTooLargeError";
  override readonly retry = "later";
}

/** The provider promises more orders but does not deliver them, or repeats the same ones. */
export class WalkStalledError extends OrderMirrorError {
  override readonly name = "WalkStalledError";
  override readonly retry = "later";
}
