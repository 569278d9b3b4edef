import { floorTo, formatInstant, NANOS_PER_SECOND } from "../domain/instant.ts";
import type { Instant } from "../domain/instant.ts";
import type { Granularity } from "./faults.ts";

const DIGITS: Readonly<Record<Granularity, number>> = { s: 0, ms: 3, us: 6, ns: 9 };
const GRANULES: Readonly<Record<Granularity, bigint>> = {
  s: NANOS_PER_SECOND,
  ms: 1_000_000n,
  us: 1_000n,
  ns: 1n,
};

/** `instant` cut to the granularity at which the provider keeps time. */
export function cutTo(instant: Instant, granularity: Granularity): Instant {
  return floorTo(instant, GRANULES[granularity]);
}

/**
 * ISO 8601 with the offset as +hh:mm, and always as many fraction digits as the granularity has. Assumed: local
 * time and milliseconds; the spec shows neither the offset nor the digits.
 */
export function formatTime(instant: Instant, granularity: Granularity, utcOffsetMinutes: number): string {
  const local = formatInstant(
    instant + BigInt(utcOffsetMinutes) * 60n * NANOS_PER_SECOND,
    DIGITS[granularity],
  );
  const minutes = Math.abs(utcOffsetMinutes);
  const pad = (part: number) => String(part).padStart(2, "0");
  const sign = utcOffsetMinutes < 0 ? "-" : "+";
  return `${local.slice(0, -1)}${sign}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`;
}
