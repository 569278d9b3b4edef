import { addSeconds, floorTo, NANOS_PER_SECOND, type Instant } from "../order/instant.ts";

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

/** The end of what a read now can prove, exclusive: a change up to here is in the provider's list by now. */
export function provableUntil(providerNow: Instant, marginSeconds: number): Instant {
  return floorTo(addSeconds(providerNow, -marginSeconds - CLOCK_MARGIN_SECONDS), BOUND_GRANULE);
}

/** The newest part of what can be proved is read once it is this many polling intervals long. */
export const PROOF_INTERVALS = 4;

/** The provider's clock is a lower bound; later answers may lower it by its resolution. */
const CLOCK_MARGIN_SECONDS = 1;

/** `window` with `granule` more on both sides: bounds may be inclusive, exclusive, or rounded. */
export function widen(window: Window, granule: bigint): Window {
  return { since: window.since - granule, until: window.until + granule };
}

/** Two windows that together cover `window`, cut in the middle; see cutAt. */
export function halve(window: Window, granule: bigint): readonly [Window, Window] | undefined {
  return cutAt(window, window.since + (window.until - window.since + granule) / 2n, granule);
}

/**
 * Two windows that together cover `window`, cut at a multiple of `granule`; undefined if the cut is too near to a
 * bound.
 *
 * The right one starts a granule before the cut: if `since` were exclusive, the orders at the cut would be in neither.
 */
export function cutAt(
  { since, until }: Window,
  instant: Instant,
  granule: bigint,
): readonly [Window, Window] | undefined {
  const cut = floorTo(instant, granule);
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
