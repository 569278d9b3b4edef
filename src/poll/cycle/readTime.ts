import type { Instant } from "../../domain/order/instant.ts";
import { HORIZON_SECONDS_MIN } from "../../domain/order/observation.ts";
import type { ReadTime } from "../../domain/order/observation.ts";
import type { PollDeps } from "./deps.ts";

/** What a read requested at this instant can know. */
export function readTime(
  { settleSeconds, horizonSeconds = HORIZON_SECONDS_MIN }: Pick<PollDeps, "settleSeconds" | "horizonSeconds">,
  requestedAt: Instant,
): ReadTime {
  return { requestedAt, settleSeconds, horizonSeconds };
}
