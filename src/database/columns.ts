import type { Instant } from "../domain/order/instant.ts";

/** Converts a bigint column of nanoseconds, which arrives as decimal text, to an instant. */
export function toInstant(text: string | null): Instant | null {
  return text === null ? null : BigInt(text);
}
