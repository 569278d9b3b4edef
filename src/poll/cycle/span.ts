import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";

/** How long the windows of a sweep may be: halved if they are too large, doubled again if they are not. */
export interface Span {
  seconds(): number;
  /** To at most half of `window`, which was too large. */
  shorten(window: Window): void;
  lengthen(): void;
}

/** The span of a sweep over a past period that nobody waits for. */
export interface PeriodSpan extends Span {
  /** Lengthens the span as far as the requests of its last window allow. */
  fit(requests: number): void;
}

const DAY_SECONDS = 86_400;
const YEAR_SECONDS = 365 * DAY_SECONDS;
/**
 * Each window costs a request or two more than its orders need, so it should have many pages; but people see progress only
 * when a window ends.
 */
const PAGES_WANTED = 30;
/** A shorter window cannot be cut any more. */
const SPAN_MIN_SECONDS = 2;

export function makeSpan({ seconds: start, max }: { seconds: number; max: number }): Span {
  let seconds = start;
  return {
    seconds: () => seconds,
    shorten({ since, until }) {
      const tooLong = Math.min(seconds, Number((until - since) / NANOS_PER_SECOND));
      seconds = Math.max(SPAN_MIN_SECONDS, Math.floor(tooLong / 2));
    },
    lengthen: () => void (seconds = Math.min(max, seconds * 2)),
  };
}

export function makePeriodSpan(): PeriodSpan {
  const span = makeSpan({ seconds: DAY_SECONDS, max: YEAR_SECONDS });
  return {
    ...span,
    fit(requests) {
      if (requests < PAGES_WANTED) span.lengthen();
      if (requests * 4 < PAGES_WANTED) span.lengthen();
    },
  };
}
