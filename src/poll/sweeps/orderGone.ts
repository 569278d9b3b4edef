import { applyAbsence } from "../../apply/absence.sql.ts";
import type { AbsenceOutcome } from "../../apply/absence.sql.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { horizonOf } from "../../domain/order/observation.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { readTime } from "../cycle/readTime.ts";

/**
 * The one place that handles it when the provider answers a single read with "not found" (404 or 410, whatever the
 * body): the order is gone, unless the mirror holds a claim that is younger than such a read can know.
 */
export async function noteOrderGone(
  deps: Pick<PollDeps, "source" | "pool" | "logger" | "settleSeconds" | "horizonSeconds">,
  { reference, via, requestedAt }: { reference: string; via: "refetch" | "verify"; requestedAt: Instant },
): Promise<AbsenceOutcome> {
  const { sourceId } = deps.source;
  const horizon = horizonOf(readTime(deps, requestedAt));
  const absence = await applyAbsence(deps.pool, { sourceId, reference, via, horizon, requestedAt });
  if (absence.outcome === "gone") {
    deps.logger.warn({ reference }, "the provider has no order of this reference; it is no longer served");
  }
  return absence;
}
