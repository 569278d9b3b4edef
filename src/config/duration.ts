import { ConfigurationError } from "../domain/errors.ts";
import {
  instantFromMillis,
  millisFromInstant,
  tryParseInstant,
  type Instant,
} from "../domain/order/instant.ts";

const ISO_8601_DURATION =
  /^P(?!$)(?:(\d{1,6})Y)?(?:(\d{1,6})M)?(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?!$)(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9})S)?)?$/;
/** The short form: 90s, 30m, 12h, 7d, 2w; its parts are in the same places. */
const SHORT_DURATION = /^()()(?:(\d{1,6})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?$/;
const DAY_SECONDS = 86_400;
const SECONDS = [366 * DAY_SECONDS, 31 * DAY_SECONDS, 7 * DAY_SECONDS, DAY_SECONDS, 3_600, 60, 1];
const DATE = /^\d{4}-\d\d-\d\d$/;

/**
 * The seconds of an ISO 8601 duration such as `P30D`, `P1Y6M` or `PT12H`, in which a year has 366 days and a month 31;
 * undefined for anything else.
 */
export function parseDuration(text: string, form = ISO_8601_DURATION): number | undefined {
  const parts = form.exec(text)?.slice(1);
  return parts?.reduce((sum, part, place) => sum + Number(part ?? 0) * (SECONDS[place] ?? 0), 0);
}

/**
 * The instant that a text means at `now`: a duration, ISO 8601 or short such as 7d, counts back from it, but not beyond
 * 1970; an instant is used as is, and a date means its start in UTC. Undefined for any other text.
 */
export function findSince(text: string, now: Instant): Instant | undefined {
  const seconds = parseDuration(text) ?? (text === "" ? undefined : parseDuration(text, SHORT_DURATION));
  if (seconds === undefined) return tryParseInstant(DATE.test(text) ? `${text}T00:00:00Z` : text);
  return instantFromMillis(Math.max(millisFromInstant(now) - seconds * 1_000, 0));
}

/** findSince for a text that must mean an instant. Throws ConfigurationError for any other. */
export function resolveSince(text: string, now: Instant): Instant {
  const instant = findSince(text, now);
  if (instant !== undefined) return instant;
  throw new ConfigurationError(`${JSON.stringify(text)} is neither a duration, a date, nor an instant.`, {
    fix: "Write a duration such as 7d or P30D, a date in UTC such as 2026-01-31, or an instant with its time zone such as 2026-01-31T00:00:00Z.",
  });
}
