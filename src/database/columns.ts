import type { Instant } from "../domain/order/instant.ts";

/** A bigint column of nanoseconds, which comes as decimal text, as an instant. */
export function toInstant(text: string | null): Instant | null {
  return text === null ? null : BigInt(text);
}
