import type { PollDeps } from "../../../src/poll/pollDeps.ts";
import { makePoller, type Poller } from "../../../src/poll/poller.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeLiveApply } from "./liveApply.ts";

/** A poller of the source `live` in real time, with its own holder. */
export function makeLivePoller(
  deps: Pick<PollDeps, "client" | "pool" | "intervalSeconds" | "backfillSince"> & Partial<PollDeps>,
): Poller {
  return makePoller({
    source: { sourceId: "live" },
    apply: makeLiveApply(deps.pool),
    clock: systemClock,
    logger: silentLogger,
    marginSeconds: 3,
    pace: "cycle",
    holder: `test-${Math.random()}`,
    rateWindowMs: 0,
    ...deps,
  });
}
