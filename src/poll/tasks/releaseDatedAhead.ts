import { AHEAD_SECONDS_MAX } from "../../apply/interpretEvent.ts";
import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import { HORIZON_SECONDS_MIN } from "../../domain/order/observation.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { decideDatedAhead } from "../ledger/datedAhead.sql.ts";
import type { LeaderTask } from "./leaderTasks.ts";

const EVERY_MS = 30_000;
const nanos = (seconds: number) => BigInt(Math.ceil(seconds)) * NANOS_PER_SECOND;

/**
 * Releases events that were dated ahead of the provider's clock, once their time has come or a read has refuted them.
 */
export function makeReleaseDatedAhead(
  deps: Pick<PollDeps, "source" | "pool" | "logger" | "horizonSeconds">,
): LeaderTask {
  return {
    name: "decide on events that were dated ahead",
    everyMs: EVERY_MS,
    concerns: ({ hasDatedAhead }) => [hasDatedAhead],
    async run() {
      const { waited, due, refuted } = await decideDatedAhead(deps.pool, {
        sourceId: deps.source.sourceId,
        aheadNanosMax: nanos(AHEAD_SECONDS_MAX),
        marginNanos: nanos(deps.horizonSeconds ?? HORIZON_SECONDS_MIN),
      });
      if (due + refuted > 0) deps.logger.info({ due, refuted }, "decided on events that were dated ahead");
      return waited ? "again" : undefined;
    },
  };
}
