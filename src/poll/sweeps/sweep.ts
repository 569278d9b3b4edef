import { NANOS_PER_SECOND, type Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Term } from "../leadership.ts";
import type { PollDeps } from "../pollDeps.ts";
import type { CycleState } from "../pollState.sql.ts";
import type { WindowJob } from "./windows.ts";

/*
 * Two sweeps read the list, window by window (headSweep.ts, proofSweeps.ts):
 *
 *                history_since              safe_through    now - margin         now
 *                     | proved                    | to be proved  | may be late   |
 *   proof sweep       |---------------------------|-------------->|               |
 *   head sweep                                    +-------------------- closing --|-> open end
 *                                                              short -------------|->
 *
 * The head sweep reads from the last head less a minute to now, for freshness. The proof sweep reads what is not proved
 * up to now less the margin: what is new, the history of a new source, what a breach withdrew. A walked window is a
 * proof only from the end of a head sweep that began after the walk and reaches back to the end of all that is walked
 * without a gap: an order that changed while its old window was being read has left that window, and is there.
 */

const DAY_SECONDS = 86_400;
const PERIOD_SPAN_MAX_SECONDS = 365 * DAY_SECONDS;
/** Each window costs a request or two more than its orders need, so those of the past should have many pages. */
const PAGES_WANTED = 12;
/** With the pace `request`: how full a page is before windows grow no more. */
const PAGE_SHARE = 0.4;
/** A shorter window cannot be cut any more. */
const SPAN_MIN_SECONDS = 2;
/** A window that could not be proved, or that the list could not serve, is left out for this long. */
const REST_MS = 600_000;

/** Knowledge with which a sweep chooses a window. */
export interface SweepView {
  /** The provider's current time, a lower bound. */
  readonly providerNow: Instant;
  readonly nowMs: number;
  readonly state: CycleState;
}

/** Chooses windows, one after the other. */
export interface Sweep {
  /** The next window; undefined if there is nothing to read now. */
  next(view: SweepView, term: Term): Promise<WindowJob | undefined>;
  readonly span: Span;
  /** The windows that are left out for some time; undefined if the sweep leaves out nothing. */
  readonly rest?: Rest;
}

/** The length of a sweep's windows: halved if they are too large or fail, longer again if not. */
interface Span {
  seconds(): number;
  /** Makes the next window half as long as this one; false if it cannot be shorter. */
  shorten(window: Window): boolean;
  /** Chooses the length of the next window by what this one had. */
  fit(found: { requests: number; orders: number }): void;
}

/**
 * A page of a window overlaps the one before, and orders that leave meanwhile shift the seam. In half a minute so many
 * leave that pages hardly ever meet: with the pace `request` a window is to fit on one page, which has no seam.
 */
export function makeSpan(
  { pace, client }: Pick<PollDeps, "pace" | "client">,
  { seconds: start, max }: { seconds: number; max: number },
): Span {
  let seconds = start;
  const limit = (length: number) => Math.min(max, Math.max(SPAN_MIN_SECONDS, Math.floor(length)));
  return {
    seconds: () => seconds,
    shorten(window) {
      const length = Math.min(seconds, lengthOf(window));
      seconds = limit(length / 2);
      return seconds < length;
    },
    fit({ requests, orders }) {
      const share = orders / client.promises.pageRowsMax;
      const isSparse = pace === "cycle" ? requests < PAGES_WANTED : share < PAGE_SHARE;
      if (isSparse) seconds = limit(seconds * 2);
    },
  };
}

/** Makes the span of windows of the past, which may be sparse. */
export const makePastSpan = (deps: PollDeps): Span =>
  makeSpan(deps, { seconds: DAY_SECONDS, max: PERIOD_SPAN_MAX_SECONDS });

function lengthOf({ since, until }: Window): number {
  return Number((until - since) / NANOS_PER_SECOND);
}

type Rest = ReturnType<typeof makeRest>;

/** Makes a set of windows that are left out until some time. */
export function makeRest() {
  let resting: { window: Window; untilMs: number }[] = [];
  return {
    add: (window: Window, nowMs: number) => void resting.push({ window, untilMs: nowMs + REST_MS }),
    windows(nowMs: number): Window[] {
      resting = resting.filter(({ untilMs }) => untilMs > nowMs);
      return resting.map(({ window }) => window);
    },
  };
}
