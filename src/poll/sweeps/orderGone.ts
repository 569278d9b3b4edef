import type { PollDeps } from "../cycle/deps.ts";

/**
 * The one place that is told when the provider answers a single read with "not found" (404 or 410, whatever the
 * body). The mirror keeps the order as it is.
 */
export function noteOrderGone(
  { logger }: Pick<PollDeps, "logger">,
  { reference, reason }: { reference: string; reason: string },
): void {
  logger.warn({ reference, reason }, "the provider has no order of this reference");
}
