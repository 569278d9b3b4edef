import type { Instant } from "../order/instant.ts";
import type { Snapshot } from "../order/order.ts";
import type { WalkRequest } from "../window/walk.ts";

/** A source holds the live orders of an organization or its test orders, never both. */
export type Mode = "live" | "test";

/** What reads are for, most urgent first; a waiting one is overtaken by every more urgent one. */
export const PRIORITIES = ["poll", "refetch", "backfill", "verify"] as const;
export type Priority = (typeof PRIORITIES)[number];

export interface SourceReadOptions {
  /** Default `poll`. */
  readonly priority?: Priority | undefined;
  readonly signal?: AbortSignal | undefined;
  /** How often it is sent at most. For a caller that tries again by itself. */
  readonly attemptsMax?: number | undefined;
}

/** What cannot be read as an order, with its reference if that much can be read. */
export interface UnreadableOrder {
  /** JSON text, exactly as it came. */
  readonly raw: string;
  /** What is wrong with it; no text out of it. */
  readonly detail: string;
  readonly reference: string | null;
}

/** An element of a page. */
export type ListedOrder =
  | { readonly kind: "order"; readonly snapshot: Snapshot }
  | ({ readonly kind: "unreadable" } & UnreadableOrder);

/** A page of a window, every element of it. */
export interface WindowPage {
  readonly elements: readonly ListedOrder[];
  readonly hasMore: boolean;
  /** The limit that the source used: it may be lower than the one asked for. */
  readonly limit: number;
  /** Lower bound of the source's time at which the request started. */
  readonly requestedAt: Instant;
  /** What the source said of its limits for lists, in words. */
  readonly rate: string;
}

/** One order, read singly. */
export interface OrderRead {
  readonly snapshot: Snapshot;
  /** Lower bound of the source's time at which the request started. */
  readonly requestedAt: Instant;
}

/** The source's clock as far as it can be known from outside: it never claims to be later than it is. */
export interface SourceClock {
  /** A lower bound of the source's time now. */
  providerNow(): Instant;
  /** False until an answer has shown the time. */
  isSynchronized(): boolean;
  /** Seconds by which the local clock is ahead (positive) or behind for certain; null while unknown. */
  skewSeconds(): number | null;
}

/** What a source keeps to, beyond the shape of its answers. */
export interface SourcePromises {
  /** Orders that a page may hold at most. */
  readonly pageRowsMax: number;
  /** The longest window over which it counts list reads, in milliseconds. */
  readonly rateWindowMs: number;
}

/**
 * Where orders come from. Polling depends on this and on nothing else of a provider; its rules for windows, walks and
 * proofs hold for any source that keeps to it:
 * - each order has a reference, unique in the source, and an `updatedAt` that every visible change raises;
 * - a change may appear late, but no later than the tuned margins measure;
 * - each call waits for its turn in the source's budget, throws a SourceError or the reason of the caller's signal, and
 *   may be repeated.
 */
export interface OrderSource {
  readonly promises: SourcePromises;
  readonly providerClock: SourceClock;
  /**
   * The orders with an `updatedAt` in [since, until), as they are now, `offset` of them left out: sorted by `updatedAt`
   * where the source can sort. A source that pages otherwise leads from an offset to its own kind of place.
   */
  listWindow(request: WalkRequest, options?: SourceReadOptions): Promise<WindowPage>;
  /** One order. Throws a SourceError with the failure `not_found` where there is none. */
  getOrder(reference: string, options?: SourceReadOptions): Promise<OrderRead>;
  /** Branches as JSON texts. */
  listBranches(
    page?: { readonly limit?: number | undefined; readonly offset?: number | undefined },
    options?: SourceReadOptions,
  ): Promise<{ readonly raws: readonly string[]; readonly hasMore: boolean }>;
}

/** What the body of an authenticated event says. */
export type SourceEvent = {
  /** What the source calls this kind of event; null where it does not say. */
  readonly type: string | null;
} & (
  | {
      readonly kind: "order";
      /** Undefined where it cannot be read. */
      readonly created: Instant | undefined;
      /** Null where the event does not say. */
      readonly livemode: boolean | null;
      readonly snapshot: Snapshot;
    }
  /** Not about an order. */
  | { readonly kind: "other" }
  | {
      readonly kind: "unreadable";
      readonly reason: "not_json" | "not_an_envelope" | "unreadable_order";
      readonly detail: string;
      readonly reference: string | null;
    }
);

/** How a source announces changes. Receiving and applying depend on this and on nothing else of a provider. */
export interface EventReader {
  /** The id under which the source sends an event again, as it stands in the body; whatever else where there is none. */
  readonly readEventId: (body: Buffer) => unknown;
  /** Never throws: one bad event must not hold up the others. */
  readonly readEvent: (body: Buffer) => SourceEvent;
}
