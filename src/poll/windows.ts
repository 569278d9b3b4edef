import { createHash } from "node:crypto";
import { isChange, type Decision } from "../apply/applySubjects.ts";
import { OrderMirrorError } from "../domain/errors.ts";
import { NANOS_PER_SECOND, type Instant } from "../domain/order/instant.ts";
import { failureOf } from "../domain/source/errors.ts";
import type { ListElement, WindowPage } from "../domain/source/orderSource.ts";
import type { WalkRow } from "../domain/window/scan.ts";
import { limitTo, nextRequest, receivePage, startWalk, type Walk } from "../domain/window/walk.ts";
import type { Window } from "../domain/window/window.ts";
import type { Term } from "./leadership.ts";
import type { PollDeps } from "./pollDeps.ts";

/*
 * Reads windows a page at a time, so that reading may pause between two pages for any length of time. Each page is
 * applied as it comes: applying may be repeated, and what a page shows is true whoever leads. Only the record of a window
 * needs the lease, and the sweep that chose the window writes it (sweeps.ts). Start at `WindowReader.readPage`.
 */

/** A window to read. */
export interface WindowJob {
  readonly window: Window;
  /** Also its priority. */
  readonly via: "poll" | "backfill" | "verify";
  /** It has no end, so that no order can leave it. */
  readonly open?: boolean;
  /** Records the window after its last page. Throws LeaseLostError. */
  readonly record: (read: WindowRead) => Promise<Recorded>;
}

/** A window that was read to its end; all its pages are applied. */
export interface WindowRead {
  readonly window: Window;
  /** Provider-clock instant at which the first page was requested, a lower bound. */
  readonly begunAt: Instant;
  readonly durationMs: number;
  /** Every order of the window was on a page. */
  readonly whole: boolean;
  readonly requests: number;
  /** Different orders, or states of orders, on its pages. */
  readonly orders: number;
  /** References on its pages; null if there were too many to keep. */
  readonly listed: readonly string[] | null;
  /** References of the orders that the mirror had otherwise. */
  readonly differed: readonly string[];
}

/** What the record of a window says: that it may be a proof, that it cannot be one, or nothing of the kind. */
export type Recorded = "proved" | "unproved" | "read";

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

/** How many orders a page may have: fewer once a page of the source had more bytes than an answer may have. */
export interface PageRows {
  rows: number;
}

/** A window under way. */
interface Reading {
  readonly job: WindowJob;
  readonly walk: Walk;
  /** Undefined before the first page. */
  readonly begunAt: Instant | undefined;
  readonly begunAtMs: number;
  readonly orders: number;
  readonly listed: readonly string[] | null;
  readonly differed: readonly string[];
}

/** More pages than this are better read as several windows, so that each is recorded, and memory keeps fewer references. */
const PAGES_MAX = 30;
/** A window this short cannot be read in parts, so it may take as many pages as an import of a million orders. */
const INDIVISIBLE_NANOS = 2n * NANOS_PER_SECOND;
const INDIVISIBLE_PAGES_MAX = 5_000;

/** Reads one window after the other. */
export class WindowReader {
  readonly #deps: PollDeps;
  readonly #pageRows: PageRows;
  #reading: Reading | undefined;

  constructor(deps: PollDeps, pageRows: PageRows) {
    this.#deps = deps;
    this.#pageRows = pageRows;
  }

  /** The window under way. */
  get job(): WindowJob | undefined {
    return this.#reading?.job;
  }

  begin(job: WindowJob): void {
    const { clock, pace } = this.#deps;
    const { window, open = false } = job;
    const isDivisible = window.until - window.since > INDIVISIBLE_NANOS;
    // Half a minute later, so many orders have left a window that its next page would hardly ever overlap this one.
    const pagesMax = !isDivisible ? INDIVISIBLE_PAGES_MAX : pace === "request" ? 1 : PAGES_MAX;
    this.#reading = {
      job,
      walk: startWalk({ window, limit: this.#pageRows.rows, pagesMax, open }),
      begunAt: undefined,
      begunAtMs: clock.monotonicMs(),
      orders: 0,
      listed: [],
      differed: [],
    };
  }

  /** Forgets the window under way. */
  forget(): void {
    this.#reading = undefined;
  }

  /**
   * Reads and applies the next page of the window under way; resolves with the window once that was its last page. An
   * error leaves the window as it was, to be continued. Throws WalkTooLargeError, WalkStalledError, SourceError, the
   * database's errors, or the reason of `signal`.
   */
  async readPage(context: {
    term: Term;
    signal: AbortSignal;
    counts: ReadCounts;
  }): Promise<WindowRead | undefined> {
    const before = this.#reading;
    if (before === undefined) throw new TypeError("no window is under way");
    // A window whose record failed.
    if (before.walk.outcome !== undefined) return this.#conclude(before);
    context.term.assertLeading();
    const { page, walk } = await this.#receive(before, context.signal);
    const reading = await this.#apply({ before, page, walk }, context.counts);
    this.#reading = reading;
    return walk.outcome === undefined ? undefined : this.#conclude(reading);
  }

  /** Requests the next page, with half as many orders each time its answer has too many bytes. */
  async #receive(
    { job, walk }: Reading,
    signal: AbortSignal,
  ): Promise<{ readonly page: WindowPage; readonly walk: Walk }> {
    for (;;) {
      const limited = limitTo(walk, this.#pageRows.rows);
      const request = nextRequest(limited);
      if (request === undefined) throw new TypeError("the window has been read");
      try {
        const page = await this.#deps.client.listWindow(request, { priority: job.via, signal });
        const rows = page.elements.map(toRow);
        const next = receivePage(limited, { rows, hasMore: page.hasMore, limit: page.limit });
        assertWalks(next);
        return { page, walk: next };
      } catch (error) {
        if (failureOf(error) !== "too_large" || request.limit <= 1) throw error;
        this.#pageRows.rows = Math.min(this.#pageRows.rows, Math.floor(request.limit / 2));
        this.#deps.logger.info(
          { limit: this.#pageRows.rows },
          "a page was too large; asking for shorter ones",
        );
      }
    }
  }

  async #apply(
    { before, page, walk }: { before: Reading; page: WindowPage; walk: Walk },
    counts: ReadCounts,
  ): Promise<Reading> {
    const { source, apply, marginSeconds } = this.#deps;
    const elements = walk.fresh.flatMap((index) => page.elements[index] ?? []);
    const snapshots = elements.flatMap((one) => (one.kind === "order" ? [one.snapshot] : []));
    const unreadable = elements.flatMap((one) => (one.kind === "unreadable" ? [one] : []));
    const time = { requestedAt: page.requestedAt, marginSeconds };
    const { via } = before.job;
    const decisions = await apply.applyReads({
      sourceId: source.sourceId,
      via,
      snapshots,
      unreadable,
      time,
    });
    counts.requests += 1;
    counts.orders += snapshots.length;
    counts.unreadable += unreadable.length;
    counts.applied += decisions.filter(isChange).length;
    const references = elements.flatMap((one) => referenceOf(one) ?? []);
    const differing = decisions.filter(differed).flatMap(({ reference }) => reference ?? []);
    return {
      ...before,
      walk,
      begunAt: before.begunAt ?? page.requestedAt,
      orders: before.orders + snapshots.length,
      listed: before.listed === null || walk.pages > PAGES_MAX ? null : [...before.listed, ...references],
      differed: [...before.differed, ...differing],
    };
  }

  #conclude({ walk, begunAt = 0n, begunAtMs, ...found }: Reading): WindowRead {
    const durationMs = Math.max(0, Math.round(this.#deps.clock.monotonicMs() - begunAtMs));
    const { window, proved, pages } = walk;
    if (!proved) {
      const sentence = "orders that share a timestamp change their order with each request; read again later";
      this.#deps.logger.warn({ orders: found.orders }, sentence);
    }
    return { window, begunAt, durationMs, whole: proved, requests: pages, ...found };
  }
}

/** Converts an element of a page to a row of a walk. */
function toRow(element: ListElement): WalkRow {
  if (element.kind === "unreadable") {
    const key = createHash("sha256").update(element.raw).digest("hex");
    return { key, version: undefined };
  }
  const { fields, hash, version } = element.snapshot;
  return { key: `${hash} ${version} ${fields.reference}`, version };
}

function referenceOf(element: ListElement): string | null {
  return element.kind === "order" ? element.snapshot.fields.reference : element.reference;
}

/** The mirror did not have what the provider shows; it may still not, where the key of the order did not allow the repair. */
function differed({ verdict, conflict, version, storedVersion }: Decision): boolean {
  const isBehind = version !== null && storedVersion !== null && storedVersion < version;
  return verdict === "applied" || verdict === "corrected" || conflict || isBehind;
}

function assertWalks({ outcome }: Walk): void {
  if (outcome?.kind === "too_large")
    throw new WalkTooLargeError("the window has more pages than one walk takes");
  if (outcome?.kind === "stalled")
    throw new WalkStalledError("the provider says that there are more orders but does not list them");
}

/** A window has more pages than one walk takes; a shorter window has fewer. Not a fault of the provider. */
export class WalkTooLargeError extends OrderMirrorError {
  override readonly name = "WalkTooLargeError";
  override readonly retry = "later";
}

/** The provider promises more orders but does not deliver them, or repeats the same ones. */
export class WalkStalledError extends OrderMirrorError {
  override readonly name = "WalkStalledError";
  override readonly retry = "later";
}
