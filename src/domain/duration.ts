import { NANOS_PER_SECOND, type Instant } from "./order/instant.ts";

/** Seconds from `at` to `now`; null if `at` is null. */
export function secondsSince(now: Instant, at: Instant): number;
export function secondsSince(now: Instant, at: Instant | null): number | null;
export function secondsSince(now: Instant, at: Instant | null): number | null {
  return at === null ? null : Number(now - at) / Number(NANOS_PER_SECOND);
}

const MINUTE_SECONDS = 60;

const HOUR_SECONDS = 3_600;

const DAY_SECONDS = 86_400;

/** An age in whole units, rounded down; two units from a minute on. */
export function describeAge(ageSeconds: number | null): string {
  if (ageSeconds === null) return "at an unknown time";
  if (ageSeconds <= -1) return `${describeSpan(-ageSeconds)} ahead of this clock`;
  return `${describeSpan(Math.max(0, ageSeconds))} ago`;
}

/** A duration in whole units; number and unit stay on one line. */
export function describeSpan(seconds: number): string {
  const whole = Math.floor(seconds);
  const minutes = Math.floor((whole % HOUR_SECONDS) / MINUTE_SECONDS);
  const hours = Math.floor((whole % DAY_SECONDS) / HOUR_SECONDS);
  if (whole < MINUTE_SECONDS) return `${whole}\u00a0s`;
  if (whole < HOUR_SECONDS) return `${minutes}\u00a0min ${whole % MINUTE_SECONDS}\u00a0s`;
  if (whole < DAY_SECONDS) return `${hours}\u00a0h ${minutes}\u00a0min`;
  return `${Math.floor(whole / DAY_SECONDS)}\u00a0d ${hours}\u00a0h`;
}

/** A duration that somebody chose: as in describeSpan, but "5 min" instead of "5 min 0 s". */
export function describeChosenSpan(seconds: number): string {
  return describeSpan(seconds).replace(/ 0\u00a0(?:s|min|h)$/, "");
}

/** A delay: milliseconds below a second, tenths below a minute, otherwise as in describeSpan. */
export function describeDelay(seconds: number): string {
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1_000))}\u00a0ms`;
  return seconds < MINUTE_SECONDS ? `${seconds.toFixed(1)}\u00a0s` : describeSpan(seconds);
}
