import { tryParseInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const HTTP_DATE =
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}:\d{2}:\d{2}) GMT$/;

/**
 * The instant of an HTTP date such as `Sun, 06 Nov 1994 08:49:37 GMT`, to the second; null for anything else.
 *
 * The two obsolete formats of RFC 9110 are not supported: no current server sends them, and two-digit years are
 * ambiguous.
 */
export function parseHttpDate(field: string): Instant | null {
  const [, day, monthName = "", year, time] = HTTP_DATE.exec(field) ?? [];
  const month = String(MONTHS.indexOf(monthName) + 1).padStart(2, "0");
  return tryParseInstant(`${year}-${month}-${day}T${time}Z`) ?? null;
}
