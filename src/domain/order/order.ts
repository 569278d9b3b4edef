import type { Instant } from "./instant.ts";
import type { OrderFields } from "./orderColumns.ts";

/** The statuses that the spec names ("States and transitions") and their places; providers may send others. */
const RANKS: ReadonlyMap<string, number> = new Map([
  ["created", 1],
  ["arrived_for_pickup", 2],
  ["picked_up", 3],
  ["arrived_for_delivery", 4],
  ["cancelled", 6],
]);

/** The spec does not show every status; one that we do not know lies after those that we do, but is not final. */
const UNKNOWN_STATUS_RANK = 5;

/** Place of a status in the life of an order, 1 to 6: decides between two changes within one timestamp. */
export function lifeCycleRank(status: string): number {
  return RANKS.get(status) ?? UNKNOWN_STATUS_RANK;
}

/** True for a status that the spec calls final ("States and transitions", rule 3). */
export function isFinal(status: string): boolean {
  return status === "cancelled";
}

/** An order object as the provider sent it, and what we read out of it. */
export interface Snapshot {
  readonly fields: OrderFields;
  /** The provider's `updatedAt`. */
  readonly version: Instant;
  /** SHA-256 of the canonical JSON, 32 bytes as hex. */
  readonly hash: string;
  /** The JSON text of the order object exactly as it came. */
  readonly raw: string;
}
