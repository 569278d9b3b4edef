import type { Instant } from "../domain/order/instant.ts";
import type { Observation, Via } from "../domain/order/observation.ts";

/** Why something authenticated could not be applied. Shown to people; kept stable. */
export type QuarantineReason =
  | "wrong_mode"
  | "not_json"
  | "not_an_envelope"
  | "unreadable_order"
  | "unreadable_created"
  | "dated_ahead"
  | "refused_by_database";

/** Where a subject came from, when it came as an event. */
export interface EventOrigin {
  readonly inboxSeq: number;
  readonly eventId: string;
  readonly eventType: string | null;
}

/** Input that has no order to apply. */
interface Unapplied {
  /** What in it may be the reference of an order; null where `reference` says it. */
  readonly names: readonly string[] | null;
}

interface Common {
  readonly sourceId: string;
  readonly via: Via;
  readonly event: EventOrigin | null;
}

/** What a batch decides on: an observation of an order, or input that has none. */
export type Subject =
  | (Common & { readonly kind: "observation"; readonly observation: Observation })
  | (Common & Unapplied & { readonly kind: "ignored"; readonly reason: string })
  | (Common &
      Unapplied & {
        readonly kind: "quarantined";
        readonly reason: QuarantineReason;
        readonly detail: string;
        readonly reference: string | null;
        /** Where it is what keeps an event from being applied. */
        readonly version?: Instant | undefined;
        /** What came by a read of ours; an event's bytes are in the inbox. */
        readonly raw: string | null;
      });
