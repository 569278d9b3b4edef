import { ConfigurationError } from "../../domain/errors.ts";
import {
  instantFromMillis,
  millisFromInstant,
  tryParseInstant,
  type Instant,
} from "../../domain/order/instant.ts";

/** A calendar duration of whole months and seconds. */
export interface Duration {
  readonly months: number;
  readonly seconds: number;
}

const ISO_8601_DURATION =
  /^P(?!$)(?:(\d{1,6})Y)?(?:(\d{1,6})M)?(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?!$)(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9})S)?)?$/;
const MINUTE_SECONDS = 60;
const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 86_400;

/** Parses an ISO 8601 duration such as `P30D`, `P1Y6M` or `PT12H`; returns undefined for anything else. */
export function parseDuration(text: string): Duration | undefined {
  const parts = ISO_8601_DURATION.exec(text);
  if (!parts) return undefined;
  const [years = 0, months = 0, weeks = 0, days = 0, hours = 0, minutes = 0, seconds = 0] = parts
    .slice(1)
    .map((part) => Number(part ?? 0));
  return {
    months: years * 12 + months,
    seconds: (weeks * 7 + days) * DAY_SECONDS + hours * HOUR_SECONDS + minutes * MINUTE_SECONDS + seconds,
  };
}

/**
 * `now` minus `duration`, in UTC: first months (a day that the month lacks becomes its last day), then seconds. Never
 * before 1970. Exact to milliseconds, enough for the start of a backfill.
 */
function subtractDuration(now: Instant, { months, seconds }: Duration): Instant {
  const date = new Date(millisFromInstant(now));
  const day = date.getUTCDate();
  date.setUTCMonth(date.getUTCMonth() - months);
  // The day that this month lacks has become one of the next month, whose day 0 is this month's last.
  if (date.getUTCDate() !== day) date.setUTCDate(0);
  const millis = date.getTime() - seconds * 1_000;
  return millis > 0 ? instantFromMillis(millis) : 0n;
}

/** The short form of a duration: 90s, 30m, 12h, 7d, 2w. */
const SHORT_DURATION = /^(\d{1,6})(?:([smh])|([dw]))$/;
const DATE = /^\d{4}-\d\d-\d\d$/;

/**
 * The instant that a text means at `now`: a duration, ISO 8601 or short such as 7d, counts back from it; an instant is
 * used as is, and a date means its start in UTC. Undefined for any other text.
 */
export function findSince(text: string, now: Instant): Instant | undefined {
  const [, number = "", time = "", days = ""] = SHORT_DURATION.exec(text) ?? [];
  const long = number === "" ? text : `P${time && "T"}${number}${(time || days).toUpperCase()}`;
  const duration = parseDuration(long);
  if (duration) return subtractDuration(now, duration);
  return tryParseInstant(DATE.test(text) ? `${text}T00:00:00Z` : text);
}

/** findSince for a text that must mean an instant. Throws ConfigurationError for any other. */
export function resolveSince(text: string, now: Instant): Instant {
  const instant = findSince(text, now);
  if (instant !== undefined) return instant;
  throw new ConfigurationError(`${JSON.stringify(text)} is neither a duration, a date, nor an instant.`, {
    fix: "Write a duration such as 7d or P30D, a date in UTC such as 2026-01-31, or an instant with its time zone such as 2026-01-31T00:00:00Z.",
  });
}
