import { formatInstant, instantFromMillis, parseHttpDate, tryParseInstant } from "../domain/order/instant.ts";

export const TIMESTAMP_UNITS = ["s", "ms", "iso", "http"] as const;
export type TimestampUnit = (typeof TIMESTAMP_UNITS)[number];

/** Lenient parsing would accept "1614265330abc" as a time, although a different text was signed. */
const DIGITS = /^(0|[1-9]\d{0,14})$/;
const NANOS_PER_SECOND = 1e9;

type TimestampRefusal = "timestamp_malformed" | "timestamp_outside_tolerance";

/** What is wrong with a time of signing; it must be within the tolerance, inclusive, before or after `nowSeconds`. */
export function findTimeProblem(
  text: string,
  {
    unit,
    toleranceSeconds,
    nowSeconds,
  }: { unit: TimestampUnit; toleranceSeconds: number; nowSeconds: number },
): TimestampRefusal | undefined {
  const seconds = parseSeconds(text, unit);
  if (seconds === undefined) return "timestamp_malformed";
  return Math.abs(nowSeconds - seconds) > toleranceSeconds ? "timestamp_outside_tolerance" : undefined;
}

/** `nowSeconds` as the scheme writes it. */
export function formatTimestamp(nowSeconds: number, unit: TimestampUnit): string {
  if (unit === "iso") return formatInstant(instantFromMillis(nowSeconds * 1_000));
  if (unit === "http") return new Date(nowSeconds * 1_000).toUTCString();
  return String(Math.floor(unit === "ms" ? nowSeconds * 1_000 : nowSeconds));
}

/** The time of signing in seconds since 1970, or undefined when it is not written in that unit. */
export function parseSeconds(text: string, unit: TimestampUnit): number | undefined {
  if (unit === "iso" || unit === "http") {
    const instant = unit === "iso" ? tryParseInstant(text) : (parseHttpDate(text) ?? undefined);
    return instant === undefined ? undefined : Number(instant) / NANOS_PER_SECOND;
  }
  if (!DIGITS.test(text)) return undefined;
  return unit === "ms" ? Number(text) / 1_000 : Number(text);
}
