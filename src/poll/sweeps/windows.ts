import { createHash } from "node:crypto";
import { isChange, type Decision } from "../../apply/applySubjects.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import { NANOS_PER_SECOND, type Instant } from "../../domain/order/instant.ts";
import { failureOf } from "../../domain/source/errors.ts";
import type { ListElement, WindowPage } from "../../domain/source/orderSource.ts";
import type { WalkRow } from "../../domain/window/scan.ts";
import { limitTo, nextRequest, receivePage, startWalk, type Walk } from "../../domain/window/walk.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Term } from "../leadership.ts";
import type { PollDeps } from "../pollDeps.ts";
import type { PollState } from "../pollState.sql.ts";

/*
 * Reads windows a page at a time, so that reading may pause between two pages for any length of time. Each page is
 * applied as it comes: applying may be repeated, and what a page shows is true whoever leads. Only the record of a
 * window needs the lease, and the sweep that chose the window writes it (sweep.ts). Start at `readPage`.
 */

/** A window to read. */
export interface WindowJob {
  readonly window: Window;
  /** Also its priority. */
  readonly via: "poll" | "backfill" | "verify";
  /** The end of an open window lies ahead, so that no order can leave it; this is where the present is. */
  readonly openFrom?: Instant | undefined;
  /** Records the window after its last page. Throws LeaseLostError. */
  readonly record: (read: WindowRead) => Promise<Recorded>;
  /** Counts a failure of a window that was asked for. Throws LeaseLostError. */
  readonly noteFailure?: (message: string) => Promise<void>;
}

/** The part of a window that was read so far; all its pages are applied. */
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

/** Outcome of a record: whether the window may be a proof, if it was meant as one, or how far the head sweep is. */
export type Recorded = { readonly isProof: boolean } | PollState;

/** Counts of what was read, and of the effect. */
export interface ReadCounts {
  requests: number;
  /** Different orders, or states of orders, on the pages. */
  orders: number;
  /** The number of them that changed the mirror. */
  applied: number;
  /** Elements that could not be read as orders; they are in quarantine. */
  unreadable: number;
}

/** Limit of orders on a page: fewer once a page of the source had more bytes than an answer may have. */
export interface PageRows {
  rows: number;
}

/** A window under way. */
export interface Reading extends WindowRead {
  readonly job: WindowJob;
  readonly walk: Walk;
  readonly begunMs: number;
}

/**
 * More pages than this are better read as several windows, so that each is recorded, and memory keeps fewer references.
 */
const PAGES_MAX = 30;
/** A window this short cannot be read in parts, so it may take as many pages as an import of a million orders. */
const INDIVISIBLE_NANOS = 2n * NANOS_PER_SECOND;
const INDIVISIBLE_PAGES_MAX = 5_000;

export function startReading({ clock, pace }: PollDeps, job: WindowJob, { rows }: PageRows): Reading {
  const { window, openFrom } = job;
  const isDivisible = window.until - window.since > INDIVISIBLE_NANOS;
  // Half a minute later, so many orders have left a window that its next page would hardly ever overlap this one.
  const pagesMax = !isDivisible ? INDIVISIBLE_PAGES_MAX : pace === "request" ? 1 : PAGES_MAX;
  const walk = startWalk({ window, limit: rows, pagesMax, open: openFrom !== undefined });
  const nothing = {
    begunAt: 0n,
    durationMs: 0,
    whole: true,
    requests: 0,
    orders: 0,
    listed: [],
    differed: [],
  };
  return { job, walk, window, begunMs: clock.monotonicMs(), ...nothing };
}

interface PageContext {
  readonly term: Term;
  readonly signal: AbortSignal;
  readonly pageRows: PageRows;
  readonly counts: ReadCounts;
}

/**
 * Reads and applies the next page of a window, until its walk has an outcome: it was read, or has too many pages. An
 * error leaves the window as it was, to be continued. Throws WalkStalledError, SourceError, the database's errors, or
 * the reason of `signal`.
 */
export async function readPage(deps: PollDeps, before: Reading, context: PageContext): Promise<Reading> {
  // A window whose record failed.
  if (before.walk.outcome !== undefined) return before;
  context.term.assertLeading();
  const { page, walk } = await receive(deps, before, context);
  const elements = walk.fresh.flatMap((index) => page.elements[index] ?? []);
  const { decisions, orders } = await applyPage(
    deps,
    { elements, page, via: before.job.via },
    context.counts,
  );
  if (walk.outcome?.kind === "read" && !walk.proved) {
    const sentence = "orders that share a timestamp change their order with each request; read again later";
    deps.logger.warn({ orders: before.orders + orders }, sentence);
  }
  const references = elements.flatMap((one) => referenceOf(one) ?? []);
  const differing = decisions.filter(differed).flatMap(({ reference }) => reference ?? []);
  return {
    ...before,
    walk,
    begunAt: before.requests === 0 ? page.requestedAt : before.begunAt,
    durationMs: Math.max(0, Math.round(deps.clock.monotonicMs() - before.begunMs)),
    whole: walk.proved,
    requests: walk.pages,
    orders: before.orders + orders,
    listed: before.listed === null || walk.pages > PAGES_MAX ? null : [...before.listed, ...references],
    differed: [...before.differed, ...differing],
  };
}

/** Requests the next page, with half as many orders each time its answer has too many bytes. */
async function receive(
  { client, logger }: PollDeps,
  { job, walk }: Reading,
  { pageRows, signal }: PageContext,
): Promise<{ readonly page: WindowPage; readonly walk: Walk }> {
  for (;;) {
    const limited = limitTo(walk, pageRows.rows);
    const request = nextRequest(limited);
    if (request === undefined) throw new TypeError("the window has been read");
    try {
      const page = await client.listWindow(request, { priority: job.via, signal });
      const rows = page.elements.map(toRow);
      const next = receivePage(limited, { rows, hasMore: page.hasMore, limit: page.limit });
      if (next.outcome?.kind === "stalled")
        throw new WalkStalledError("the provider says that there are more orders but does not list them");
      return { page, walk: next };
    } catch (error) {
      if (failureOf(error) !== "too_large" || request.limit <= 1) throw error;
      pageRows.rows = Math.min(pageRows.rows, Math.floor(request.limit / 2));
      logger.info({ limit: pageRows.rows }, "a page was too large; asking for shorter ones");
    }
  }
}

async function applyPage(
  { source: { sourceId }, apply, marginSeconds }: PollDeps,
  { elements, page, via }: { elements: readonly ListElement[]; page: WindowPage; via: WindowJob["via"] },
  counts: ReadCounts,
) {
  const snapshots = elements.flatMap((one) => (one.kind === "order" ? [one.snapshot] : []));
  const unreadable = elements.flatMap((one) => (one.kind === "unreadable" ? [one] : []));
  const time = { requestedAt: page.requestedAt, marginSeconds };
  const decisions = await apply.applyReads({ sourceId, via, snapshots, unreadable, time });
  counts.requests += 1;
  counts.orders += snapshots.length;
  counts.unreadable += unreadable.length;
  counts.applied += decisions.filter(isChange).length;
  return { decisions, orders: snapshots.length };
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

/** Whether the mirror had less than the provider shows; it may still, where the key of the order forbade the repair. */
function differed({ verdict, conflict, version, storedVersion }: Decision): boolean {
  const isBehind = version !== null && storedVersion !== null && storedVersion < version;
  return verdict === "applied" || verdict === "corrected" || conflict || isBehind;
}

/** The provider promises more orders but does not deliver them, or repeats the same ones. */
export class WalkStalledError extends OrderMirrorError {
  override readonly name = "WalkStalledError";
  override readonly retry = "later";
}
