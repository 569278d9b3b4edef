import { instantFromMillis, NANOS_PER_MILLI } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";

/** The provider's clock. It drives the fleet, retries and rate windows, and timestamps changes. */
export interface SandboxClock {
  readonly kind: "real" | "virtual";
  readonly now: () => Instant;
  /** The instant of a change. A virtual clock then advances by 1 ms, so that changes have different instants. */
  readonly stamp: () => Instant;
  /** Virtual only: advances to `instant`; never back. */
  readonly moveTo: (instant: Instant) => void;
  /** Virtual only, otherwise without effect: returns to the start of a new world. */
  readonly restart: () => void;
}

/** Monday morning, before the busy hours. */
export const VIRTUAL_START: Instant = 1_767_600_000_000_000_000n;
const VIRTUAL_TICK_NANOS = NANOS_PER_MILLI;

/** Finer than the wall clock's milliseconds; follows the wall clock when it is set or after the machine slept. */
export function makeRealClock(clock: Clock): SandboxClock {
  const driftNanosMax = 50n * NANOS_PER_MILLI;
  let base = clock.now();
  let baseMs = clock.monotonicMs();
  const now = () => {
    const wall = clock.now();
    const fine = base + BigInt(Math.round((clock.monotonicMs() - baseMs) * 1_000)) * 1_000n;
    const drift = fine - wall;
    if (drift < driftNanosMax && drift > -driftNanosMax) return fine;
    base = wall;
    baseMs = clock.monotonicMs();
    return wall;
  };
  return {
    kind: "real",
    now,
    stamp: now,
    moveTo: () => {
      throw new TypeError("the sandbox runs on the real clock, which cannot be moved");
    },
    restart: () => undefined,
  };
}

/** Stands still until advanced, so that runs repeat. Starts at `now` if not null; a restart returns to `start`. */
export function makeVirtualClock({ start, now }: { start: Instant; now: Instant | null }): SandboxClock {
  let current = now ?? start;
  return {
    kind: "virtual",
    now: () => current,
    stamp: () => {
      const stamped = current;
      current += VIRTUAL_TICK_NANOS;
      return stamped;
    },
    moveTo: (instant) => {
      if (instant > current) current = instant;
    },
    restart: () => {
      current = start;
    },
  };
}

/** The instant `delayMs` after `instant`; fractions of a millisecond are dropped. */
export function addMillis(instant: Instant, delayMs: number): Instant {
  return instant + instantFromMillis(delayMs);
}
