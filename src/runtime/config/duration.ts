import { ConfigurationError } from "../../domain/errors.ts";
import {
  instantFromMillis,
  millisFromInstant,
  tryParseInstant,
  type Instant,
} from "../../domain/order/instant.ts";

/** A calendar duration; each part is a whole number, 0 if absent. */
export interface Duration {
  readonly months: number;
  readonly days: number;
  readonly seconds: number;
}

const ISO_8601_DURATION =
  /^P(?!$)(?:(\d{1,6})Y)?(?:(\d{1,6})M)?(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?!$)(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9})S)?)?$/;
const MONTHS_PER_YEAR = 12;
const DAYS_PER_WEEK = 7;
const MINUTE_SECONDS = 60;
const HOUR_SECONDS = 3_600;
const DAY_MS = 86_400_000;

/** Parses an ISO 8601 duration such as `P30D`, `P1Y6M` or `PT12H`; returns undefined for anything else. */
export function parseDuration(text: string): Duration | undefined {
  const parts = ISO_8601_DURATION.exec(text);
  if (!parts) return undefined;
  const [years, months, weeks, days, hours, minutes, seconds] = parts
    .slice(1)
    .map((part) => Number(part ?? 0));
  return {
    months: (years ?? 0) * MONTHS_PER_YEAR + (months ?? 0),
    days: (weeks ?? 0) * DAYS_PER_WEEK + (days ?? 0),
    seconds: (hours ?? 0) * HOUR_SECONDS + (minutes ?? 0) * MINUTE_SECONDS + (seconds ?? 0),
  };
}

/**
 * `now` minus `duration`, in UTC: first months (a day that the month lacks becomes its last day), then days and
 * seconds. Never before 1970. Exact to milliseconds, enough for the start of a backfill.
 */
function subtractDuration(now: Instant, { months, days, seconds }: Duration): Instant {
  const date = new Date(millisFromInstant(now));
  const day = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() - months);
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  date.setUTCDate(Math.min(day, lastDay));
  const millis = date.getTime() - days * DAY_MS - seconds * 1_000;
  return millis > 0 ? instantFromMillis(millis) : 0n;
}

/** The short form of a duration: 90s, 30m, 12h, 7d, 2w. */
const SHORT_DURATION = /^(\d{1,6})([smhdw])$/;
const LONG_FORMS = { s: ["PT", "S"], m: ["PT", "M"], h: ["PT", "H"], d: ["P", "D"], w: ["P", "W"] } as const;
const DATE = /^\d{4}-\d\d-\d\d$/;

/**
 * The instant that a text means at `now`: a duration, ISO 8601 or short such as 7d, counts back from it; an instant is
 * used as is, and a date means its start in UTC. Throws ConfigurationError for any other text.
 */
export function resolveSince(text: string, now: Instant): Instant {
  const [, number = "", unit] = SHORT_DURATION.exec(text) ?? [];
  const [before, after] = LONG_FORMS[unit as keyof typeof LONG_FORMS] ?? ["", ""];
  const duration = parseDuration(`${before}${number === "" ? text : number}${after}`);
  if (duration) return subtractDuration(now, duration);
  const instant = tryParseInstant(DATE.test(text) ? `${text}T00:00:00Z` : text);
  if (instant !== undefined) return instant;
  throw new ConfigurationError(`${JSON.stringify(text)} is neither a duration, a date, nor an instant.`, {
    fix: "Write a duration such as 7d or P30D, a date in UTC such as 2026-01-31, or an instant with its time zone such as 2026-01-31T00:00:00Z.",
  });
}
