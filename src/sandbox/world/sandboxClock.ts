import { instantFromMillis, NANOS_PER_MILLI } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";

/** The provider's clock. It drives the fleet, the retries and the rate windows, and stamps what changes. */
export interface SandboxClock {
  readonly kind: "real" | "virtual";
  readonly now: () => Instant;
  /** The instant of a change. A virtual clock then moves on by 1 ms, so that changes do not share an instant. */
  readonly stamp: () => Instant;
  /** Virtual only: moves to `instant`; never back. */
  readonly moveTo: (instant: Instant) => void;
  /** Virtual only, else without effect: back to where a new world begins. */
  readonly restart: () => void;
}

/** Monday morning, before the busy hours. */
export const VIRTUAL_START: Instant = 1_767_600_000_000_000_000n;
const VIRTUAL_TICK_NANOS = NANOS_PER_MILLI;

/** Finer than the wall clock's milliseconds; follows the wall clock when that is set or the machine slept. */
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

/**
 * Stands still until it is moved: two runs with the same seed and requests give the same timestamps. Goes on from
 * `now` where that is not null, and back to `start` when it is restarted.
 */
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

/** The instant `delayMs` after `instant`; fractions of a millisecond are cut. */
export function addMillis(instant: Instant, delayMs: number): Instant {
  return instant + instantFromMillis(delayMs);
}
