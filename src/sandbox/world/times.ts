import { floorTo, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Granularity } from "../control/faults.ts";

const DIGITS: Readonly<Record<Granularity, number>> = { s: 0, ms: 3, us: 6, ns: 9 };
const GRANULES: Readonly<Record<Granularity, bigint>> = {
  s: NANOS_PER_SECOND,
  ms: 1_000_000n,
  us: 1_000n,
  ns: 1n,
};

/** `instant` rounded down to the granularity of the provider's timestamps. */
export function cutTo(instant: Instant, granularity: Granularity): Instant {
  return floorTo(instant, GRANULES[granularity]);
}

/** ISO 8601 in local time, with the granularity's fraction digits. Assumed: the spec shows neither. */
export function formatTime(instant: Instant, granularity: Granularity, utcOffsetMinutes: number): string {
  // Not formatInstant: a list page formats 1,400 times, and this is three times as fast.
  const whole = floorTo(instant, NANOS_PER_SECOND);
  const localMs = Number(whole / 1_000_000n) + utcOffsetMinutes * 60_000;
  const digits = DIGITS[granularity];
  const nanos =
    digits === 0
      ? ""
      : `.${String(instant - whole)
          .padStart(9, "0")
          .slice(0, digits)}`;
  return `${new Date(localMs).toISOString().slice(0, 19)}${nanos}${formatOffset(utcOffsetMinutes)}`;
}

function formatOffset(utcOffsetMinutes: number): string {
  const minutes = Math.abs(utcOffsetMinutes);
  const pad = (part: number) => String(part).padStart(2, "0");
  return `${utcOffsetMinutes < 0 ? "-" : "+"}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`;
}
