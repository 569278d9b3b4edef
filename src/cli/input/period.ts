import { ConfigurationError } from "../../domain/errors.ts";
import { ceilTo, floorTo, formatInstant } from "../../domain/order/instant.ts";
import { BOUND_GRANULE } from "../../domain/window/window.ts";
import type { Window } from "../../domain/window/window.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { resolveSince } from "../../runtime/config/duration.ts";

/**
 * The period that `--from` and `--to` name, widened to whole seconds: each an instant, or a duration back from now;
 * without `to` until now. Throws ConfigurationError.
 */
export function readPeriod({ from, to }: { from: string; to: string | undefined }): Window {
  const now = systemClock.now();
  const since = floorTo(resolveSince(from, now), BOUND_GRANULE);
  const until = ceilTo(to === undefined ? now : resolveSince(to, now), BOUND_GRANULE);
  if (since < until) return { since, until };
  throw new ConfigurationError("The period ends before it begins.", { fix: "--from is earlier than --to." });
}

/** A period for people and the audit log. */
export function describePeriod({ since, until }: Window): string {
  return `${formatInstant(since, 0)} to ${formatInstant(until, 0)}`;
}
