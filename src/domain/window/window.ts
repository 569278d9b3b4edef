import { addSeconds, ceilTo, floorTo, NANOS_PER_SECOND } from "../order/instant.ts";
import type { Instant } from "../order/instant.ts";

/** The half-open interval [since, until) of `updatedAt`. */
export interface Window {
  readonly since: Instant;
  readonly until: Instant;
}

/**
 * Bounds of windows are whole seconds: providers cut or refuse finer ones, and the provider's clock is known to a
 * second only. It is also the coarsest resolution of `updatedAt` that is believed.
 */
export const BOUND_GRANULE = NANOS_PER_SECOND;

/** End of what may be read now, exclusive: younger changes may still be on their way into the provider's list. */
export function settledUntil(options: { providerNow: Instant; settleSeconds: number }): Instant {
  return floorTo(addSeconds(options.providerNow, -options.settleSeconds), BOUND_GRANULE);
}

/**
 * The window that the fast sweep reads next, from `overlapSeconds` before the cursor, at most `spanMaxSeconds`
 * beyond it, and not beyond `end` (exclusive, from settledUntil).
 *
 * The cursor is the end of the last window, never the greatest `updatedAt` seen: one order stamped in the future
 * would carry it past changes that are still to come. Where the provider's clock went back, `end` lies before the
 * cursor; then the window ends at `end` anyway, and the cursor waits.
 */
export function nextWindow(options: {
  polledThrough: Instant;
  end: Instant;
  overlapSeconds: number;
  spanMaxSeconds: number;
}): Window {
  const { polledThrough, end, overlapSeconds, spanMaxSeconds } = options;
  const from = polledThrough < end ? polledThrough : end;
  const since = floorTo(addSeconds(from, -overlapSeconds), BOUND_GRANULE);
  const reach = ceilTo(addSeconds(from, spanMaxSeconds), BOUND_GRANULE);
  const until = reach < end ? reach : end;
  // Without overlap and without a second gone by there is nothing to read; a window is never empty.
  return { since: since < until ? since : until - BOUND_GRANULE, until };
}

/**
 * `window` with `granule` more on both sides: what is asked for, so that it does not matter whether the provider
 * takes its bounds as inclusive or exclusive, or shows rounded times.
 */
export function widen(window: Window, granule: bigint): Window {
  return { since: window.since - granule, until: window.until + granule };
}

/**
 * Two windows that together cover `window`, cut at a multiple of `granule`; undefined when it is too short to be cut.
 *
 * The right one starts a granule before the cut: were `since` exclusive, the orders at the cut would be in neither.
 */
export function halve(window: Window, granule: bigint): readonly [Window, Window] | undefined {
  const { since, until } = window;
  const cut = floorTo(since + (until - since + granule) / 2n, granule);
  if (cut - granule <= since || cut >= until) return undefined;
  return [
    { since, until: cut },
    { since: cut - granule, until },
  ];
}

/** The last part of `window`, at most `spanSeconds` long. */
export function lastPart(window: Window, spanSeconds: number): Window {
  const since = addSeconds(window.until, -spanSeconds);
  return since > window.since ? { since, until: window.until } : window;
}

/** The first part of `window`, at most `spanSeconds` long. */
export function firstPart(window: Window, spanSeconds: number): Window {
  const until = addSeconds(window.since, spanSeconds);
  return until < window.until ? { since: window.since, until } : window;
}
