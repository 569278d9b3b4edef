import { gaps } from "../../domain/window/coverage.ts";
import { addSeconds } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { LOOKBACK_MIN_SECONDS } from "../../domain/window/lateness.ts";
import type { Margins } from "../../domain/window/lateness.ts";
import { firstPart, nextWindow, settledUntil } from "../../domain/window/window.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Priority } from "../../domain/source/orderSource.ts";
import type { Term } from "../leader/leadership.ts";
import type { RequestKind } from "../ledger/periodRequests.sql.ts";
import type { AppliedPage } from "../cycle/readWindow.ts";
import { makeSpan } from "../cycle/span.ts";
import type { Span } from "../cycle/span.ts";

/** The information available to a sweep. */
export interface SweepView {
  /** The provider's current time, a lower bound. */
  readonly providerNow: Instant;
  /** The same at the start of the cycle: a sweep that reaches it is done, however long that took. */
  readonly cycleStartedAt: Instant;
  readonly nowMs: number;
  readonly historySince: Instant;
  readonly polledThrough: Instant;
  readonly safeThrough: Instant | undefined;
  /** What somebody waited for when the cycle began: a read or a comparison of a period. */
  readonly openRequests: readonly RequestKind[];
  /** Windows that this sweep has read in this cycle. */
  readonly windowsRead: number;
}

/** A policy: which windows to read, and when. */
export interface Sweep {
  readonly name: "fast" | "delayed" | "backfill" | "requested" | "verify";
  readonly via: "poll" | "backfill" | "verify";
  readonly priority: Priority;
  readonly movesCursor: boolean;
  /** Its windows prove something if they are read late enough after their end; see lateSeconds. */
  readonly proves: boolean;
  /** True: decide on the pages without writing. */
  readonly rehearses?: boolean;
  /** How long its windows may be. */
  readonly span: Span;
  /** The window to read next in this cycle; undefined if there is none. */
  next(view: SweepView, term: Term): Promise<Window | undefined>;
  /** Whether it can continue a window that was left half read, perhaps by another process. Default: yes. */
  resume?(window: Window, term: Term): Promise<boolean>;
  /** A page of its window was applied. */
  notePage?(page: AppliedPage): void;
  /** `window` was read completely and committed. */
  noteRead(window: Window, result: WindowResult): void | Promise<void>;
  /** A step failed; it will be retried. */
  noteFailure?(error: unknown, term: Term): Promise<void>;
}

export interface WindowResult {
  readonly proved: boolean;
  readonly requests: number;
  readonly orders: number;
  readonly nowMs: number;
  readonly term: Term;
  readonly signal: AbortSignal;
}

/** The longest window of the fast sweep: after a day offline, catching up is committed hour by hour. */
const FAST_SPAN_SECONDS = 3_600;
/** Every two minutes at the default interval. */
const DELAYED_EVERY_CYCLES = 4;
/** With a longer look-back, each change is shown this many times before it is out of reach. */
const LONG_LOOKS = 8;
/** The provider's clock is a lower bound; later answers may lower it by its resolution. */
const CLOCK_MARGIN_SECONDS = 1;
const BACKFILL_SPAN_SECONDS = 86_400;
const BACKFILL_SPAN_MAX_SECONDS = 30 * 86_400;
/** A gap that could not be proved is skipped for this long, so that it does not block the others. */
const UNPROVED_REST_MS = 600_000;

/** From the cursor to the settled present, every cycle: this keeps the mirror fresh. */
export function makeFastSweep(options: Margins): Sweep {
  const span = makeSpan({ seconds: FAST_SPAN_SECONDS, max: FAST_SPAN_SECONDS });
  return {
    name: "fast",
    via: "poll",
    priority: "poll",
    movesCursor: true,
    proves: false,
    span,
    async next({ providerNow, cycleStartedAt, polledThrough, windowsRead }) {
      const { settleSeconds, overlapSeconds } = options;
      // An answer of this cycle may have set the clock back; the hours beyond it have nothing to show yet.
      const now = providerNow < cycleStartedAt ? providerNow : cycleStartedAt;
      const end = settledUntil({ providerNow: now, settleSeconds });
      // The overlap is worth reading again even if there is nothing beyond the cursor.
      if (windowsRead > 0 && polledThrough >= end) return undefined;
      return nextWindow({ polledThrough, end, overlapSeconds, spanMaxSeconds: span.seconds() });
    },
    noteRead: () => span.lengthen(),
  };
}

/**
 * Reads the last quarter of an hour again, every few cycles, up to where nothing can appear any more: this proves the
 * mirror complete. If changes have appeared more than five minutes late, it occasionally looks further back.
 */
export function makeDelayedSweep(
  options: Margins & { readonly intervalSeconds: number; readonly lookbackSeconds?: number | undefined },
): Sweep {
  const span = makeSpan({ seconds: LOOKBACK_MIN_SECONDS, max: LOOKBACK_MIN_SECONDS });
  let nextMs = Number.NEGATIVE_INFINITY;
  let nextLongMs = Number.NEGATIVE_INFINITY;
  /** The rest of the quarter of an hour, if it takes more than one window. */
  let rest: Window | undefined;
  function takeLookback(nowMs: number): number {
    const { lookbackSeconds = LOOKBACK_MIN_SECONDS } = options;
    if (lookbackSeconds <= LOOKBACK_MIN_SECONDS || nowMs < nextLongMs) return LOOKBACK_MIN_SECONDS;
    nextLongMs = nowMs + (lookbackSeconds / LONG_LOOKS) * 1_000;
    return lookbackSeconds;
  }

  return {
    name: "delayed",
    via: "poll",
    priority: "poll",
    movesCursor: false,
    proves: true,
    span,
    async next({ providerNow, nowMs, historySince }) {
      if (rest === undefined) {
        if (nowMs < nextMs) return undefined;
        const until = provableUntil(providerNow, options);
        const lookback = addSeconds(until, -takeLookback(nowMs));
        rest = { since: lookback > historySince ? lookback : historySince, until };
      }
      if (rest.since < rest.until) return firstPart(rest, span.seconds());
      rest = undefined;
      return undefined;
    },
    noteRead({ until }, { nowMs }) {
      span.lengthen();
      rest = rest && until < rest.until ? { since: until, until: rest.until } : undefined;
      if (rest === undefined) nextMs = nowMs + DELAYED_EVERY_CYCLES * options.intervalSeconds * 1_000;
    },
  };
}

/** Gaps in what is proved, oldest first: the history of a new source, and whatever the delayed sweep omitted. */
export function makeBackfillSweep(
  options: Margins,
  readGaps: (within: Window, limit: number) => Promise<Window[]>,
): Sweep {
  const span = makeSpan({ seconds: BACKFILL_SPAN_SECONDS, max: BACKFILL_SPAN_MAX_SECONDS });
  let unproved: { window: Window; untilMs: number }[] = [];
  return {
    name: "backfill",
    via: "backfill",
    priority: "backfill",
    movesCursor: false,
    proves: true,
    span,
    async next({ providerNow, nowMs, historySince, safeThrough }) {
      const until = addSeconds(provableUntil(providerNow, options), -LOOKBACK_MIN_SECONDS);
      const within = { since: safeThrough ?? historySince, until };
      if (within.since >= within.until) return undefined;
      unproved = unproved.filter(({ untilMs }) => untilMs > nowMs);
      const resting = unproved.map(({ window }) => window);
      const found = await readGaps(within, resting.length + 1);
      const [gap] = found.flatMap((one) => gaps(one, resting));
      return gap && firstPart(gap, span.seconds());
    },
    noteRead(window, { proved, requests, nowMs }) {
      if (!proved) unproved.push({ window, untilMs: nowMs + UNPROVED_REST_MS });
      if (requests === 1) span.lengthen();
    },
  };
}

/** Seconds after an instant, from which on no change with that timestamp or an older one can appear. */
export function lateSeconds({ settleSeconds, overlapSeconds }: Margins): number {
  return settleSeconds + overlapSeconds;
}

/** The end of what could be proved by a read now, exclusive. */
export function provableUntil(providerNow: Instant, options: Margins): Instant {
  return settledUntil({ providerNow, settleSeconds: lateSeconds(options) + CLOCK_MARGIN_SECONDS });
}
