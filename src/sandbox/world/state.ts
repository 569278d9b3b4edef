import { instantFromMillis, NANOS_PER_MILLI, type Instant } from "../../domain/order/instant.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/telemetry/logger.ts";
import type { Pool, Write } from "./world.sql.ts";
import type { Directory } from "./directory.ts";
import type { Faults, FaultSwitches } from "../control/faults.ts";

/** Marks every response and every event, so that nobody mistakes the sandbox for the provider. */
export const MARK = { "X-Order-Mirror-Sandbox": "1" } as const;

/**
 * Decisions on what the spec does not show, one way or another. The first value of each is what docs/assumptions.md
 * assumes; the others are what a provider may do as well. They do not change while a sandbox runs.
 */
export const DECISIONS = {
  /**
   * `{ error: { code, message } }`, `{ code, message }`, or `{ error: code, message }`; `request_id` is at the top
   * level.
   */
  errorShape: ["nested", "flat", "text"],
  /** A `limit` over 200 is refused, or answered with 200. */
  largeLimit: ["refused", "capped"],
  /** Creating and changing an order sends no event, or `order.created` and `order.updated`. */
  changeEvents: ["none", "sent"],
  /** Events are sent for all statuses, or only for those that the spec shows. */
  announced: ["all", "shown"],
  /** Orders have all fields, or lack the assumed ones: `branch`, `zone`, `customer` and `createdAt`. */
  orderFields: ["all", "shown"],
  /** The name of the branch in an order. */
  branchInOrder: ["full", "reference"],
  /** The list of branches comes whole, or two at a time by `offset`. */
  branchPages: ["one", "several"],
} as const satisfies Readonly<Record<string, readonly [string, string, ...string[]]>>;

export type Decisions = { readonly [Name in keyof typeof DECISIONS]: (typeof DECISIONS)[Name][number] };

/** The assumed decisions with those of `chosen`. */
export function decide(chosen: Partial<Decisions> = {}): Decisions {
  const assumed = Object.entries(DECISIONS).map(([name, [first]]) => [name, first]);
  return { ...(Object.fromEntries(assumed) as Decisions), ...chosen };
}

/** The provider's clock. It drives the fleet, retries and rate windows, and timestamps changes. */
export interface SandboxClock {
  readonly kind: "real" | "virtual";
  readonly now: () => Instant;
  /** The instant of a change. A virtual clock then advances by 1 ms, so that changes have different instants. */
  readonly stamp: () => Instant;
  /** Virtual only: advances to `instant`; never back. */
  readonly moveTo: (instant: Instant) => void;
}

/** Monday morning, before the busy hours. */
export const VIRTUAL_START: Instant = 1_767_600_000_000_000_000n;

export function makeRealClock({ now }: Clock): SandboxClock {
  const moveTo = () => {
    throw new TypeError("the sandbox runs on the real clock, which cannot be moved");
  };
  return { kind: "real", now, stamp: now, moveTo };
}

/** Makes a clock that stands still until advanced, so that runs repeat. */
export function makeVirtualClock(start: Instant): SandboxClock {
  let current = start;
  return {
    kind: "virtual",
    now: () => current,
    stamp: () => {
      const stamped = current;
      current += NANOS_PER_MILLI;
      return stamped;
    },
    moveTo: (instant) => {
      if (instant > current) current = instant;
    },
  };
}

/** The instant `delayMs` after `instant`; fractions of a millisecond are dropped. */
export function addMillis(instant: Instant, delayMs: number): Instant {
  return instant + instantFromMillis(delayMs);
}

/** Settings that can change while the sandbox runs, in addition to the faults. */
interface Dials {
  seed: number;
  /** Speed of the fleet as a multiple of real time; 0 stops it. */
  fleetSpeed: number;
  ordersPerMinute: number;
  retryBaseMs: number;
}

export interface SandboxState {
  readonly pool: Pool;
  readonly write: Write;
  readonly clock: SandboxClock;
  readonly faults: FaultSwitches;
  readonly directory: Directory;
  readonly dials: Dials;
  readonly quotes: Quotes;
  readonly utcOffsetMinutes: number;
  readonly decisions: Decisions;
  readonly logger: Logger;
  /** Tells the task loop that something may be due. */
  readonly wake: () => void;
}

/** The time that the provider reports: its own clock plus the injected skew. */
export function shownTime(instant: Instant, faults: Faults): Instant {
  return instant + BigInt(faults.clockSkewMs) * NANOS_PER_MILLI;
}

export type Quotes = ReturnType<typeof makeQuotes>;

/** Time for whoever looks at a quote and then orders; at a high speed the quoted pickup is soon over. */
const QUOTE_HOLDS_MS = 10_000;

/**
 * Remembers quotes for a while, so that an order a moment later gets the quoted times (spec, "POST /v1/orders/quote",
 * rule 2), even if the rounding of the times has gone on to its next step.
 */
export function makeQuotes() {
  const quotes = new Map<string, { readonly from: Instant; readonly until: Instant }>();
  return {
    /**
     * Returns the instant from which a trip's times count: that of its quote while one holds, otherwise `now`. A quote
     * made while another still holds repeats it, and holds its own time from now.
     */
    startOf: (trip: string, now: Instant, purpose: "quote" | "order"): Instant => {
      const quote = quotes.get(trip);
      const end =
        quote === undefined ? now : purpose === "order" ? quote.until : addMillis(quote.from, QUOTE_HOLDS_MS);
      const from = quote !== undefined && quote.from <= now && now < end ? quote.from : now;
      if (purpose === "order") return from;
      for (const [known, { until }] of quotes) if (until <= now) quotes.delete(known);
      quotes.set(trip, { from, until: addMillis(now, QUOTE_HOLDS_MS) });
      return from;
    },
  };
}
