import type { Instant } from "../../src/domain/order/instant.ts";
import { merge } from "../../src/domain/window/coverage.ts";
import type { Window } from "../../src/domain/window/window.ts";

/**
 * Exclusive end of the unbroken run of `proved` windows that holds `reached`; `reached` itself where there is none.
 * It never lies before `reached` and never passes a gap.
 */
export function safeThrough(reached: Instant, proved: readonly Window[]): Instant {
  const run = merge(proved).find(({ since, until }) => since <= reached && reached < until);
  return run?.until ?? reached;
}
