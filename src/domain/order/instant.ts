import { InvalidInstantError } from "../errors.ts";

/**
 * A moment as whole nanoseconds since 1970-01-01T00:00:00Z.
 *
 * Versions and cursors are instants. A JS `Date` truncates to milliseconds and Postgres' `timestamptz` rounds to
 * microseconds, so an instant is never converted to either.
 */
export type Instant = bigint;

const NANOS_PER_MICRO = 1_000n;
export const NANOS_PER_MILLI = 1_000_000n;
export const NANOS_PER_SECOND = 1_000_000_000n;

/** The whole years in the range of a 64-bit integer column: the ends of their days are in it, too. */
const INSTANT_MIN = BigInt(Date.UTC(1678, 0)) * NANOS_PER_MILLI;
const INSTANT_MAX = BigInt(Date.UTC(2262, 0)) * NANOS_PER_MILLI - 1n;

// RFC 3339 with the variations of ISO 8601 that APIs use: no seconds, a comma, a lower-case t or z, ±hhmm or ±hh.
const ISO_8601 =
  /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9})\d*)?)?(?:([Zz])|([+-])(\d{2})(?::?(\d{2}))?)$/;

/** Its usual forms, on a day that every month has: Date.parse reads them in less than half the time. */
const USUAL =
  /^\d{4}-\d{2}-(?:[01]\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{3})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

const DAYS_IN_MONTH = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/**
 * Parses an ISO 8601 date-time with a time zone; digits beyond nanoseconds are dropped.
 *
 * A leap second (`:60`) becomes the first instant of the next minute. Throws InvalidInstantError for anything else: no
 * time zone, a date that does not exist, or a year outside 1678 to 2261.
 */
export function parseInstant(text: string): Instant {
  const instant = parseAnyYear(text);
  if (instant < INSTANT_MIN || instant > INSTANT_MAX) {
    throw new InvalidInstantError(`outside the years 1678 to 2261: ${quote(text)}`);
  }
  return instant;
}

function parseAnyYear(text: string): bigint {
  const millis = USUAL.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(millis)) return BigInt(millis) * NANOS_PER_MILLI;
  const parts = ISO_8601.exec(text);
  if (!parts) throw new InvalidInstantError(`not an ISO 8601 date-time with a time zone: ${quote(text)}`);
  const [, year, month, day, hour, minute, second = "0", fraction = "", , sign, offsetHour, offsetMinute] =
    parts;
  const date = { year: Number(year), month: Number(month), day: Number(day) };
  const time = { hour: Number(hour), minute: Number(minute), second: Number(second) };
  const offset = { hour: Number(offsetHour ?? 0), minute: Number(offsetMinute ?? 0) };
  if (!isDate(date) || !isTime(time) || offset.hour > 23 || offset.minute > 59) {
    throw new InvalidInstantError(`not a date-time that exists: ${quote(text)}`);
  }
  const days = daysSinceEpoch(date);
  const offsetSeconds = (offset.hour * 3600 + offset.minute * 60) * (sign === "-" ? -1 : 1);
  const seconds = days * 86_400 + time.hour * 3600 + time.minute * 60 + time.second - offsetSeconds;
  return BigInt(seconds) * NANOS_PER_SECOND + BigInt(fraction.padEnd(9, "0"));
}

/** Parses `text`; undefined where parseInstant would throw. */
export function tryParseInstant(text: unknown): Instant | undefined {
  return typeof text === "string" ? unlessInvalid(() => parseInstant(text)) : undefined;
}

/** Parses a bound of a period: a year from 0000 to 9999 outside the range becomes the nearest instant within it. */
export function tryParseBound(text: string): Instant | undefined {
  const instant = unlessInvalid(() => parseAnyYear(text));
  if (instant === undefined) return undefined;
  if (instant < INSTANT_MIN) return INSTANT_MIN;
  return instant > INSTANT_MAX ? INSTANT_MAX : instant;
}

/**
 * The instant of an HTTP date such as `Sun, 06 Nov 1994 08:49:37 GMT`; null for anything else. The two obsolete formats
 * of RFC 9110 are not supported: no current server sends them, and two-digit years are ambiguous.
 */
export function parseHttpDate(text: string): Instant | null {
  const millis = HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN;
  // A day that does not exist would become another one.
  if (Number.isNaN(millis) || new Date(millis).toUTCString().slice(5) !== text.slice(5)) return null;
  return instantFromMillis(millis);
}

function unlessInvalid(parse: () => bigint): bigint | undefined {
  try {
    return parse();
  } catch (error) {
    if (error instanceof InvalidInstantError) return undefined;
    throw error;
  }
}

/**
 * ISO 8601 in UTC with as many fraction digits as needed, none for whole seconds; parseInstant restores the exact
 * instant. `digits` fixes the number of fraction digits (0 to 9) and drops the rest.
 */
export function formatInstant(instant: Instant, digits?: number): string {
  const seconds = floorDivide(instant, NANOS_PER_SECOND);
  const nanos = (instant - seconds * NANOS_PER_SECOND).toString().padStart(9, "0");
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
  const fraction = digits === undefined ? nanos.replace(/0+$/, "") : nanos.slice(0, digits);
  return `${whole}${fraction === "" ? "" : `.${fraction}`}Z`;
}

export function instantFromMillis(millis: number): Instant {
  return BigInt(Math.floor(millis)) * NANOS_PER_MILLI;
}

/** Whole milliseconds since 1970, rounded down. For display and timers only, never for versions. */
export function millisFromInstant(instant: Instant): number {
  return Number(floorDivide(instant, NANOS_PER_MILLI));
}

/** Whole microseconds since 1970, rounded down: the precision of a Postgres timestamptz. */
export function microsFromInstant(instant: Instant): bigint {
  return floorDivide(instant, NANOS_PER_MICRO);
}

export function addSeconds(instant: Instant, seconds: number): Instant {
  return instant + BigInt(Math.round(seconds * 1_000)) * NANOS_PER_MILLI;
}

/** The greatest multiple of `granule` nanoseconds that is not after `instant`. */
export function floorTo(instant: Instant, granule: bigint): Instant {
  return floorDivide(instant, granule) * granule;
}

/** The smallest multiple of `granule` nanoseconds that is not before `instant`. */
export function ceilTo(instant: Instant, granule: bigint): Instant {
  return -floorDivide(-instant, granule) * granule;
}

function floorDivide(value: bigint, divisor: bigint): bigint {
  const quotient = value / divisor;
  return value < 0n && quotient * divisor !== value ? quotient - 1n : quotient;
}

interface CivilDate {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

function isDate({ year, month, day }: CivilDate): boolean {
  const leap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const last = month === 2 && !leap ? 28 : (DAYS_IN_MONTH[month - 1] ?? 0);
  return day >= 1 && day <= last;
}

function isTime({ hour, minute, second }: { hour: number; minute: number; second: number }): boolean {
  return hour <= 23 && minute <= 59 && second <= 60;
}

/** Days since 1970-01-01. `Date.UTC` takes a year below 100 for one of the 1900s; the calendar repeats every 400. */
function daysSinceEpoch({ year, month, day }: CivilDate): number {
  return Date.UTC(year + 400, month - 1, day) / 86_400_000 - 146_097;
}

function quote(text: string): string {
  return JSON.stringify(text.length > 64 ? `${text.slice(0, 64)}…` : text);
}
