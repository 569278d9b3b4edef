import { formatInstant, instantFromMillis, tryParseInstant } from "../domain/order/instant.ts";
import type { Scheme } from "./scheme.ts";

type Unit = NonNullable<Scheme["timestamp"]>["unit"];

/** Lenient parsing would let "1614265330abc" pass for a time that it was not signed as. */
const DIGITS = /^(0|[1-9]\d{0,14})$/;
const NANOS_PER_SECOND = 1e9;

type TimestampRefusal =
  "timestamp_missing" | "timestamp_repeated" | "timestamp_malformed" | "timestamp_outside_tolerance";

type ReadTimestamp = (
  headers: NodeJS.Dict<string[]>,
  parts: readonly string[],
  nowSeconds: number,
) => { readonly text: string } | TimestampRefusal;

/**
 * Makes the reader of the time of signing. Its text is signed as it came; it must lie within the tolerance,
 * inclusive, before or after `nowSeconds`. A scheme without a timestamp reads "" from anything.
 */
export function makeTimestampReader({ timestamp, toleranceSeconds }: Scheme): ReadTimestamp {
  if (!timestamp) return () => ({ text: "" });
  return (headers, parts, nowSeconds) => {
    const values = "header" in timestamp ? headers[timestamp.header] : parts;
    const text = values?.[0];
    if (values === undefined || text === undefined) return "timestamp_missing";
    if (values.length > 1) return "timestamp_repeated";
    const seconds = parseSeconds(text, timestamp.unit);
    if (seconds === undefined) return "timestamp_malformed";
    return Math.abs(nowSeconds - seconds) > toleranceSeconds ? "timestamp_outside_tolerance" : { text };
  };
}

/** `nowSeconds` as the scheme writes it. */
export function formatTimestamp(nowSeconds: number, unit: Unit): string {
  switch (unit) {
    case "s":
      return String(Math.floor(nowSeconds));
    case "ms":
      return String(Math.floor(nowSeconds * 1_000));
    case "iso":
      return formatInstant(instantFromMillis(nowSeconds * 1_000));
    default: {
      const never: never = unit;
      return never;
    }
  }
}

/** Seconds since 1970 that a time of signing means, or undefined when it is not written in that unit. */
export function parseSeconds(text: string, unit: Unit): number | undefined {
  if (unit === "iso") {
    const instant = tryParseInstant(text);
    return instant === undefined ? undefined : Number(instant) / NANOS_PER_SECOND;
  }
  if (!DIGITS.test(text)) return undefined;
  return unit === "ms" ? Number(text) / 1_000 : Number(text);
}
