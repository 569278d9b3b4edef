import { addSeconds, floorTo, type Instant } from "../../domain/order/instant.ts";
import type { OrderSource } from "../../domain/source/orderSource.ts";
import { BOUND_GRANULE, type Window } from "../../domain/window/window.ts";
import { commitHead, type Walked } from "../coverage.sql.ts";
import type { Term } from "../leadership.ts";
import type { PollDeps } from "../pollDeps.ts";
import { makeRest, makeSpan, type Sweep, type SweepView } from "./sweep.ts";

/** Makes up for the seconds between the request of the last head and its answer. */
const HEAD_OVERLAP_SECONDS = 60;
/** The longest window of the head sweep: after a day offline, catching up is committed hour by hour. */
const HEAD_SPAN_SECONDS = 3_600;
/** The head's last window ends so far ahead that no order moves beyond it while it is read. */
const OPEN_SECONDS = 3_600;
/** With the pace `request`: how long the first window is. */
const PAGE_SECONDS = 60;
/** Seconds by which our bound of the provider's time may be behind it: as much as the clocks may differ. */
const CLOCKS_APART_SECONDS = 60;

export interface HeadSweep extends Sweep {
  /**
   * Begins a sweep that makes proofs of what was walked before, and reaches back to the end of that. A sweep that was
   * not ended in this term goes on instead: orders only move towards its end.
   */
  begin(view: SweepView, term: Term, walked: Walked): void;
}

/** A head sweep under way. */
interface HeadUnderWay {
  readonly term: Term;
  readonly since: Instant;
  readonly from: Instant;
  /** The last window that it makes a proof; null if there is none. */
  readonly closes: bigint | null;
  /** No order can have been missed so far. */
  readonly whole: boolean;
}

export function makeHeadSweep(
  deps: Pick<PollDeps, "source" | "client" | "pool" | "pace" | "intervalSeconds">,
): HeadSweep {
  const { source, client, pool, pace, intervalSeconds } = deps;
  const { sourceId } = source;
  const seconds = pace === "request" ? PAGE_SECONDS : HEAD_SPAN_SECONDS;
  const span = makeSpan({ client, pace }, { seconds, max: HEAD_SPAN_SECONDS });
  const rest = makeRest();
  let sweep: HeadUnderWay | undefined;

  return {
    span,
    rest,
    begin({ providerNow, nowMs, state: { polledThrough } }, term, { upTo, reach }) {
      if (sweep?.term === term) return;
      const last = polledThrough < providerNow ? polledThrough : providerNow;
      const fresh = floorTo(addSeconds(last, -HEAD_OVERLAP_SECONDS), BOUND_GRANULE);
      const isInTheWay = ({ since, until }: Window) => reach !== null && since < fresh && until > reach;
      // What the list cannot serve must not hold up the proofs of other times.
      const goesBack = reach !== null && reach < fresh && !rest.windows(nowMs).some(isInTheWay);
      const since = goesBack ? reach : fresh;
      sweep = { term, since, from: since, closes: upTo, whole: true };
    },
    next(view, { lease }) {
      if (sweep === undefined) return Promise.resolve(undefined);
      const skipped = rest.windows(view.nowMs);
      const before = stepOver(sweep, skipped);
      const { window, isLast, present } = chooseWindow(before.from, {
        until: addSeconds(before.from, span.seconds()),
        providerNow: view.providerNow,
        aheadSeconds: pace === "request" ? intervalSeconds : 0,
        skipped,
      });
      return Promise.resolve({
        window,
        via: "poll",
        openFrom: isLast ? present : undefined,
        async record(read) {
          const whole = before.whole && read.whole;
          const cursor = isLast ? floorTo(read.begunAt, BOUND_GRANULE) : window.until;
          const closes = isLast && whole && isOpen(client, window) ? before.closes : null;
          const head = { sourceId, since: before.since, cursor, orders: read.orders, closes };
          const reached = await commitHead(pool, lease, head);
          span.fit(read);
          sweep = isLast ? undefined : { ...before, from: window.until, whole };
          return reached;
        },
      });
    },
  };
}

/** Goes on behind the windows that are left out, which may follow each other; such a sweep is not whole. */
function stepOver(sweep: HeadUnderWay, skipped: readonly Window[]): HeadUnderWay {
  const { from } = sweep;
  const next = skipped.find(({ since, until }) => since <= from && from < until);
  return next === undefined ? sweep : stepOver({ ...sweep, from: next.until, whole: false }, skipped);
}

/**
 * Chooses the window that begins at `from`: up to `until` or to what is left out, or without an end if that is near.
 */
function chooseWindow(
  from: Instant,
  to: { until: Instant; providerNow: Instant; aheadSeconds: number; skipped: readonly Window[] },
) {
  const now = floorTo(to.providerNow, BOUND_GRANULE);
  // When the page will be read.
  const present = addSeconds(now, to.aheadSeconds);
  const ahead = to.skipped.flatMap(({ since }) => (since > from ? [since] : []));
  const bound = ahead.reduce((least, since) => (since < least ? since : least), present);
  const end = floorTo(to.until, BOUND_GRANULE);
  const isLast = from >= now || (bound === present && end >= present);
  const closed = end < bound ? end : bound < now ? bound : now;
  const window = { since: from, until: isLast ? addSeconds(now, OPEN_SECONDS) : closed };
  return { window, isLast, present };
}

/**
 * Whether an order that moved to the end of the open window was still within it: by a clock that is behind it may not
 * be.
 */
function isOpen({ providerClock }: Pick<OrderSource, "providerClock">, { until }: Window): boolean {
  const openUntil = addSeconds(until, -CLOCKS_APART_SECONDS);
  return providerClock.disagreementSeconds() === null && providerClock.providerNow() < openUntil;
}
