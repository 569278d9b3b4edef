import type { Order } from "./answers.ts";

/** A change of one order, or its state when the reading began. */
export interface Change {
  /** Its position in the feed; null for a state when the reading began. */
  readonly position: string | null;
  readonly reference: string;
  /** 1 for the first state of an order, then one more for each change. */
  readonly revision: number;
  readonly status: string;
  readonly previousStatus: string | null;
  /**
   * `snapshot`: the order's state when the reading began. `applied`: the order changed. `corrected`: a read refuted a
   * claim, so the order went back. `gone`: the provider no longer has the order; `after` is null.
   */
  readonly verdict: "snapshot" | "applied" | "corrected" | "gone";
  /** How the mirror learned of it; null for a snapshot. */
  readonly cause: {
    /** webhook, poll, backfill, refetch, verify or write. */
    readonly via: string;
    readonly eventId?: string | null | undefined;
    readonly eventType?: string | null | undefined;
  } | null;
  /** The provider's time of the change. */
  readonly updatedAt: string;
  /** The mirror's time of the change. */
  readonly changedAt: string;
  /** Null for a snapshot, and if a state is no longer kept. */
  readonly changedFields: readonly string[] | null;
  /** Null for a new order and a snapshot, and if it is no longer kept. */
  readonly before: Order | null;
  /** Null for a gone order, and if it is no longer kept. */
  readonly after: Order | null;
}

/** Up to when the loop has had everything. */
export interface CompleteRecord {
  /**
   * Every change with an earlier `updatedAt` was given before this record. An earlier time than in the last record means
   * that a proof was withdrawn, because a change was found that it had missed.
   */
  readonly through: string;
  /** Orders excluded from this: they could not be read. Counted up to 1,000. */
  readonly exceptions: number;
  /** The position of the record in the feed. */
  readonly position: string;
}

export type OnComplete = (record: CompleteRecord) => void | Promise<void>;
