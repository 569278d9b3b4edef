import type { Instant } from "../order/instant.ts";
import type { Snapshot } from "../order/order.ts";
import type { WalkRequest } from "../window/walk.ts";

/** A source holds the live orders of an organization or its test orders, never both. */
export type Mode = "live" | "test";

/** Purposes of reads, most urgent first; a more urgent read overtakes waiting ones. */
export type Priority = "poll" | "refetch" | "backfill" | "verify";

export interface SourceReadOptions {
  /** Default `poll`. */
  readonly priority?: Priority | undefined;
  readonly signal?: AbortSignal | undefined;
  /** The maximum number of attempts, for a caller that retries itself. */
  readonly attemptsMax?: number | undefined;
}

/** An element that cannot be read as an order, with its reference if that can be read. */
export interface UnreadableOrder {
  /** JSON text, unchanged. */
  readonly raw: string;
  /** The problem, without text from the element. */
  readonly detail: string;
  readonly reference: string | null;
}

/** An element of the provider's list, as it could be read. */
export type ListElement =
  | { readonly kind: "order"; readonly snapshot: Snapshot }
  | ({ readonly kind: "unreadable" } & UnreadableOrder);

/** A page of a window, with every element. */
export interface WindowPage {
  readonly elements: readonly ListElement[];
  readonly hasMore: boolean;
  /** The limit that the source used: it may be lower than the requested one. */
  readonly limit: number;
  /** The source's time at which the request started, a lower bound. */
  readonly requestedAt: Instant;
}

export interface OrderRead {
  readonly snapshot: Snapshot;
  /** The source's time at which the request started, a lower bound. */
  readonly requestedAt: Instant;
}

/** The source's clock, as far as it can be known from outside: never later than it is. */
export interface SourceClock {
  /** A lower bound of the source's current time. */
  providerNow(): Instant;
  /** False until an answer has shown the time. */
  isSynchronized(): boolean;
  /**
   * Our database's time at `atMs` of the local monotonic clock, a lower bound; from now on the earlier of both counts.
   */
  compareWith(ours: Instant, atMs: number): void;
  /**
   * Seconds by which the source's clock is ahead of our database's (positive) or behind; null while they agree to a
   * minute.
   */
  disagreementSeconds(): number | null;
}

/** Guarantees of a source in addition to the format of its answers. */
export interface SourcePromises {
  /** The maximum number of orders on a page. */
  readonly pageRowsMax: number;
  /** The longest window over which it counts list reads, in milliseconds. */
  readonly rateWindowMs: number;
}

/**
 * A place that orders come from. Polling depends only on this interface; its rules for windows, walks and
 * proofs hold for any source that keeps to it:
 * - each order has a reference, unique in the source, and an `updatedAt` that every visible change raises;
 * - a change may appear late, but no later than its margin;
 * - each call waits for its turn in the source's budget, throws a SourceError or the reason of the caller's signal, and
 *   may be repeated.
 */
export interface OrderSource {
  readonly promises: SourcePromises;
  readonly providerClock: SourceClock;
  /**
   * The orders with an `updatedAt` in [since, until), in their current state, without the first `offset`, sorted by
   * `updatedAt` if the source can sort. A source with another kind of paging maps the offset to its own positions.
   */
  listWindow(request: WalkRequest, options?: SourceReadOptions): Promise<WindowPage>;
  /** Reads an order. Throws a SourceError with the failure `not_found` if it does not exist. */
  getOrder(reference: string, options?: SourceReadOptions): Promise<OrderRead>;
  /** Branches as JSON texts. */
  listBranches(
    page?: { readonly limit?: number; readonly offset?: number },
    options?: SourceReadOptions,
  ): Promise<{ readonly raws: readonly string[]; readonly hasMore: boolean }>;
}
