import type { Window } from "../../../src/domain/window/window.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";

/** Sets of windows as a model of what poll/coverage.sql.ts does with Postgres' int8multirange. */

/**
 * The same set as disjoint windows in ascending order; adjacent windows are joined and empty ones removed.
 */
export function merge(windows: readonly Window[]): Window[] {
  const merged: Window[] = [];
  const sorted = windows
    .filter(({ since, until }) => since < until)
    .toSorted((left, right) => (left.since < right.since ? -1 : 1));
  for (const window of sorted) {
    const last = merged.at(-1);
    if (last === undefined || window.since > last.until) merged.push(window);
    else if (window.until > last.until)
      merged[merged.length - 1] = { since: last.since, until: window.until };
  }
  return merged;
}

/** The parts of `within` that no window of `covered` covers, in ascending order. */
export function gaps(within: Window, covered: readonly Window[]): Window[] {
  const left: Window[] = [];
  let from = within.since;
  for (const { since, until } of merge(covered)) {
    if (until <= from) continue;
    if (since >= within.until) break;
    if (since > from) left.push({ since: from, until: since });
    from = until;
  }
  if (from < within.until) left.push({ since: from, until: within.until });
  return left;
}

/**
 * Exclusive end of the unbroken run of `proved` windows that contains `reached`; `reached` itself when there is none.
 * Never before `reached`, and never past a gap.
 */
export function safeThrough(reached: Instant, proved: readonly Window[]): Instant {
  const run = merge(proved).find(({ since, until }) => since <= reached && reached < until);
  return run?.until ?? reached;
}
