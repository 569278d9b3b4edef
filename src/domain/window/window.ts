import { addSeconds, ceilTo, floorTo, NANOS_PER_SECOND } from "../order/instant.ts";
import type { Instant } from "../order/instant.ts";

/** The half-open interval [since, until) of `updatedAt`. */
export interface Window {
  readonly since: Instant;
  readonly until: Instant;
}

/**
 * Bounds of windows are whole seconds: providers truncate or refuse finer ones, and the provider's clock is only known
 * to a second. It is also the coarsest resolution of `updatedAt` that we support.
 */
export const BOUND_GRANULE = NANOS_PER_SECOND;

/** The end of what may be read now, exclusive: more recent changes may not be in the provider's list yet. */
export function settledUntil(options: { providerNow: Instant; settleSeconds: number }): Instant {
  return floorTo(addSeconds(options.providerNow, -options.settleSeconds), BOUND_GRANULE);
}

/**
 * The next window of the fast sweep: from `overlapSeconds` before the cursor, at most `spanMaxSeconds` beyond it, and
 * not beyond `end` (exclusive, from settledUntil).
 *
 * The cursor is the end of the last window, never the greatest `updatedAt` seen: an order with a future timestamp would
 * move it past changes that are still to come. If the provider's clock went back, `end` is before the cursor; then the
 * window ends at `end`, and the cursor waits.
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
  // Without overlap and before a second has passed there is nothing to read; a window is never empty.
  return { since: since < until ? since : until - BOUND_GRANULE, until };
}

/** `window` with `granule` more on both sides: bounds may be inclusive, exclusive, or rounded. */
export function widen(window: Window, granule: bigint): Window {
  return { since: window.since - granule, until: window.until + granule };
}

/**
 * Two windows that together cover `window`, cut at a multiple of `granule`; undefined if it is too short to cut.
 *
 * The right one starts a granule before the cut: if `since` were exclusive, the orders at the cut would be in neither.
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
