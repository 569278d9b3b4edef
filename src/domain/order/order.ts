import type { Instant } from "./instant.ts";
import type { OrderFields } from "./orderColumns.ts";

/** The statuses that the spec lists ("States and transitions") with their places; providers may send others. */
const RANKS: ReadonlyMap<string, number> = new Map([
  ["created", 1],
  ["arrived_for_pickup", 2],
  ["picked_up", 3],
  ["arrived_for_delivery", 4],
  ["cancelled", 6],
]);

/** The spec does not show every status; an unknown one comes after the known ones, but is not final. */
const UNKNOWN_STATUS_RANK = 5;

/** The place of a status in the life of an order, 1 to 6; it decides between two changes within one timestamp. */
export function lifeCycleRank(status: string): number {
  return RANKS.get(status) ?? UNKNOWN_STATUS_RANK;
}

/** The statuses of a delivery in sequence, as far as the spec lists them. */
export const OPEN_STATUSES: readonly string[] = [...RANKS.keys()].filter((status) => status !== "cancelled");

/** Nothing follows them; every other status is open, also one that the spec does not list. */
export const FINAL_STATUSES: readonly string[] = ["cancelled", "delivered"];

/** An order object as the provider sent it, with the fields that we read from it. */
export interface Snapshot {
  readonly fields: OrderFields;
  /** The provider's `updatedAt`. */
  readonly version: Instant;
  /**
   * SHA-256 of the canonical JSON without updatedAt, 32 bytes as hex: two orders with the same one have the same
   * content.
   */
  readonly hash: string;
  /** The JSON text of the order object, unchanged. */
  readonly raw: string;
}
