import type { Clock } from "../../runtime/lifecycle/clock.ts";

/** Resolves when the next list read may be sent; rejects with the signal's reason. */
export type AwaitTurn = (signal: AbortSignal) => Promise<void>;

/**
 * Keeps at least `gapMs` between the starts of two list reads, in addition to the client's budget; with a gap of 0 only
 * the budget applies.
 */
export function makeAwaitTurn({ clock, gapMs }: { clock: Clock; gapMs: number }): AwaitTurn {
  let lastMs = Number.NEGATIVE_INFINITY;
  return async function awaitTurn(signal) {
    signal.throwIfAborted();
    const waitMs = lastMs + gapMs - clock.monotonicMs();
    if (waitMs > 0) await clock.sleep(waitMs, signal);
    lastMs = clock.monotonicMs();
  };
}
