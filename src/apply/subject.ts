import type { Instant } from "../domain/order/instant.ts";
import type { Observation, Via } from "../domain/order/observation.ts";

/** Why authenticated input could not be applied. Shown to people; keep the values stable. */
export const QUARANTINE_REASONS = [
  "wrong_mode",
  "not_json",
  "not_an_envelope",
  "unreadable_order",
  "unreadable_created",
  "dated_ahead",
  "refused_by_database",
  "unreadable_singly",
] as const;
type QuarantineReason = (typeof QUARANTINE_REASONS)[number];

/** The origin of a subject that arrived as an event. */
export interface EventOrigin {
  readonly inboxSeq: number;
  readonly eventId: string;
  readonly eventType: string | null;
}

interface Common {
  readonly sourceId: string;
  readonly via: Via;
  readonly event: EventOrigin | null;
}

/** The input of a batch: an observation of an order, or input without one. */
export type Subject =
  | (Common & {
      readonly kind: "observation";
      readonly observation: Observation;
      /** The place of the snapshot in the event's body, in bytes from 1. */
      readonly rawStart?: number | undefined;
    })
  | (Common & { readonly kind: "ignored"; readonly reason: string })
  | (Common & {
      readonly kind: "quarantined";
      readonly reason: QuarantineReason;
      readonly detail: string;
      readonly reference: string | null;
      /** Set if it is the reason why an event cannot be applied. */
      readonly version?: Instant | undefined;
      /** The status that the event announces, if it can be read: an event in quarantine is not lost. */
      readonly status?: string | undefined;
      /** The text from a read of ours; an event's bytes are in the inbox. */
      readonly raw: string | null;
    });
