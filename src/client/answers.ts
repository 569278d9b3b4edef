import { z } from "zod";
import { parseInstant, millisFromInstant } from "../domain/order/instant.ts";
import type { ProviderAnswer } from "../provider/exchange.ts";
import type { WireOrder } from "../wire/order.ts";

/** An order object as the provider sent it, unknown fields included. Times are ISO 8601 text. */
export type Order = WireOrder;

/** Only what identifies an order is checked: an order is as the provider sent it, mistakes included. */
export const looseOrder = z.custom<Order>(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    "reference" in value &&
    typeof value.reference === "string",
);

/** What is wrong with a page that leads back to itself: reading on would never end. */
export const NO_PROGRESS = "the next page is the same one";

/** An ISO 8601 date-time with offset, or a Date. */
export type Time = string | Date;

/** How far an answer can be trusted. */
export interface Freshness {
  /** The answer has every change with an earlier `updatedAt`; null while that is unknown. */
  readonly safeThrough: string | null;
  /** Orders excluded from this claim: they were seen but could not be read. Counted up to 1,000. */
  readonly exceptions: number;
  /** Age of `safeThrough` in seconds if it is far back, otherwise null. */
  readonly staleSeconds: number | null;
}

export function readFreshness({ headers }: Pick<ProviderAnswer, "headers">): Freshness {
  const stale = headers.get("x-stale-seconds");
  return {
    safeThrough: headers.get("x-safe-through"),
    exceptions: Number(headers.get("x-safe-through-exceptions") ?? 0),
    staleSeconds: stale === null ? null : Number(stale),
  };
}

/** The parameters that have a value, as text. */
export function writeParameters(query: Readonly<Record<string, Time | number | undefined>>): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    parameters.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return parameters;
}

/** The Date of a time of an order, rounded down to the millisecond. Throws InvalidInstantError. */
export function toDate(time: string): Date {
  return new Date(millisFromInstant(parseInstant(time)));
}

/** For sorting: negative if `a` is earlier than `b`, 0 if equal, to the nanosecond. Throws InvalidInstantError. */
export function compareTimes(a: string, b: string): number {
  const difference = parseInstant(a) - parseInstant(b);
  if (difference === 0n) return 0;
  return difference < 0n ? -1 : 1;
}
