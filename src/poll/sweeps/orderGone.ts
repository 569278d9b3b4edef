import { applyAbsence } from "../../apply/absence.sql.ts";
import type { AbsenceOutcome } from "../../apply/absence.sql.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { horizonOf } from "../../domain/order/observation.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { readTime } from "../cycle/readTime.ts";

/**
 * The one place that handles a "not found" answer to a single read (404 or 410, whatever the body): the order is gone,
 * unless the mirror has a claim that is too recent for such a read.
 */
export async function noteOrderGone(
  deps: Pick<PollDeps, "source" | "pool" | "logger" | "settleSeconds" | "horizonSeconds">,
  { reference, via, requestedAt }: { reference: string; via: "refetch" | "verify"; requestedAt: Instant },
): Promise<AbsenceOutcome> {
  const { sourceId } = deps.source;
  const horizon = horizonOf(readTime(deps, requestedAt));
  const absence = await applyAbsence(deps.pool, { sourceId, reference, via, horizon, requestedAt });
  if (absence.outcome === "gone") {
    deps.logger.warn({ reference }, "the provider has no order with this reference; it is no longer served");
  }
  return absence;
}
