import type { Instant } from "../../../src/domain/order/instant.ts";
import { merge } from "./windows.ts";
import type { Window } from "../../../src/domain/window/window.ts";

/**
 * Exclusive end of the unbroken run of `proved` windows that contains `reached`; `reached` itself when there is none.
 * Never before `reached`, and never past a gap.
 */
export function safeThrough(reached: Instant, proved: readonly Window[]): Instant {
  const run = merge(proved).find(({ since, until }) => since <= reached && reached < until);
  return run?.until ?? reached;
}
