import { ConfigurationError } from "../../domain/errors.ts";
import { ceilTo, floorTo, formatInstant } from "../../domain/order/instant.ts";
import { BOUND_GRANULE } from "../../domain/window/window.ts";
import type { Window } from "../../domain/window/window.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { resolveSince } from "../../runtime/config/duration.ts";

/**
 * The period between `--from` and `--to`, widened to whole seconds. Each is an instant or a duration back from now;
 * `to` defaults to now. Throws ConfigurationError.
 */
export function readPeriod({ from, to }: { from: string; to: string | undefined }): Window {
  const now = systemClock.now();
  const since = floorTo(resolveSince(from, now), BOUND_GRANULE);
  const until = ceilTo(to === undefined ? now : resolveSince(to, now), BOUND_GRANULE);
  if (since < until) return { since, until };
  throw new ConfigurationError("The period ends before it begins.", {
    fix: "Give a --from that is earlier than --to.",
  });
}

/** A period, formatted for people and the audit log. */
export function describePeriod({ since, until }: Window): string {
  return `${formatInstant(since, 0)} to ${formatInstant(until, 0)}`;
}
