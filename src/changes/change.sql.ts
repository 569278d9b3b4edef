import type { Instant } from "../domain/order/instant.ts";
import type { Via } from "../domain/order/observation.ts";

export const CHANGE_VERDICTS = ["applied", "corrected", "gone"] as const;
export type ChangeVerdict = (typeof CHANGE_VERDICTS)[number];

/** One real change of an order. */
export interface Change {
  readonly position: bigint;
  readonly digest: string;
  readonly sourceId: string;
  readonly reference: string;
  /** 1 for the first state of the order that was seen, then one more for each change. */
  readonly revision: number;
  readonly status: string;
  readonly previousStatus: string | null;
  /** gone: the provider no longer has the order; `after` is then null. */
  readonly verdict: ChangeVerdict;
  readonly via: Via;
  readonly eventId: string | null;
  readonly eventType: string | null;
  /** The provider's updatedAt. */
  readonly version: Instant;
  /** Our clock (the database's). */
  readonly changedAt: Instant;
  /** The order object as the provider sent it, unchanged; null if it is no longer kept. */
  readonly after: string | null;
  /** The previous order object; null for a new order, and if it is no longer kept. */
  readonly before: string | null;
}

/** The columns of a change of the table or alias `from`; a digest and both orders make them a ChangeRow. */
export function changeColumns(from: string): string {
  return `${from}.position, ${from}.source_id as "sourceId", ${from}.reference, ${from}.revision, ${from}.status,
    ${from}.previous_status as "previousStatus", ${from}.verdict, ${from}.via, ${from}.event_id as "eventId",
    ${from}.event_type as "eventType", ${from}.version,
    (extract(epoch from ${from}.changed_at) * 1000000)::bigint as "changedMicros"`;
}

/** A change as the database answers it. */
export interface ChangeRow extends Omit<Change, "position" | "version" | "changedAt"> {
  readonly position: string;
  readonly version: string;
  readonly changedMicros: string;
}

export function toChange(row: ChangeRow): Change {
  return {
    position: BigInt(row.position),
    digest: row.digest,
    sourceId: row.sourceId,
    reference: row.reference,
    revision: row.revision,
    status: row.status,
    previousStatus: row.previousStatus,
    verdict: row.verdict,
    via: row.via,
    eventId: row.eventId,
    eventType: row.eventType,
    version: BigInt(row.version),
    changedAt: BigInt(row.changedMicros) * 1_000n,
    after: row.after,
    before: row.before,
  };
}
