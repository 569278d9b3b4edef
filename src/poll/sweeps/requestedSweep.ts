import type { PollDeps } from "../cycle/deps.ts";
import { makeRequestedPeriod } from "./requestedPeriod.ts";
import { lateSeconds } from "./sweeps.ts";
import type { Sweep } from "./sweeps.ts";

/** The periods requested by people, newest part first, in addition to everything else. */
export function makeRequestedSweep(
  deps: Pick<PollDeps, "source" | "pool" | "settleSeconds" | "overlapSeconds">,
): Sweep {
  const { span, next, resume, advance, noteFailure } = makeRequestedPeriod(deps, "backfill");
  return {
    name: "requested",
    via: "backfill",
    priority: "backfill",
    movesCursor: false,
    get provesAfterSeconds() {
      return lateSeconds(deps);
    },
    span,
    next: ({ providerNow }, term) => next(providerNow, term),
    resume,
    noteRead: (window, result) => advance(window, result),
    noteFailure,
  };
}
