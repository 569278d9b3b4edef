import { vi } from "vitest";
import { NANOS_PER_SECOND, type Instant } from "../../../src/domain/order/instant.ts";
import type { Clock } from "../../../src/process/clock.ts";

/** A clock that only a test moves: an hour passes in a moment, and always in the same way. */
export interface SimulatedClock extends Clock {
  /** Moves to `ms` after the start, wakes every sleeper at its time, and runs everything that follows. */
  runUntil(ms: number): Promise<void>;
}

interface Sleeper {
  readonly wakesAtMs: number;
  readonly wake: () => void;
}

/** What a clock waits for, in addition to the code that its sleepers run. */
export interface Surroundings {
  /** Resolves when everything that was set free has come to rest. */
  readonly rest: () => Promise<void>;
  /** Called when time has moved and nobody is awake yet. */
  readonly move: (nowMs: number) => Promise<void>;
}

const ALONE: Surroundings = {
  rest: () => new Promise((resolve) => setImmediate(resolve)),
  move: () => Promise.resolve(),
};

export function makeSimulatedClock(
  startsAt: Instant = 1_700_000_000n * NANOS_PER_SECOND,
  { rest, move }: Surroundings = ALONE,
): SimulatedClock {
  const sleepers = new Set<Sleeper>();
  let nowMs = 0;

  function sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const sleeper = {
        wakesAtMs: nowMs + ms,
        wake: () => {
          signal?.removeEventListener("abort", abort);
          resolve();
        },
      };
      const abort = () => {
        sleepers.delete(sleeper);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener("abort", abort, { once: true });
      sleepers.add(sleeper);
    });
  }

  return {
    now: () => startsAt + BigInt(Math.round(nowMs * 1e6)),
    monotonicMs: () => nowMs,
    sleep,
    async runUntil(ms) {
      for (;;) {
        // Let everything that the last step set free come to rest before time goes on.
        await rest();
        let next: Sleeper | undefined;
        for (const sleeper of sleepers) if (!next || sleeper.wakesAtMs < next.wakesAtMs) next = sleeper;
        if (next === undefined || next.wakesAtMs > ms) break;
        sleepers.delete(next);
        if (next.wakesAtMs > nowMs) {
          nowMs = next.wakesAtMs;
          await move(nowMs);
        }
        next.wake();
      }
      if (ms > nowMs) {
        nowMs = ms;
        await move(nowMs);
      }
    },
  };
}

const PATIENCE = { timeout: 60_000, interval: 20 };

/**
 * Whether `work` ends although the program's timers run for no longer than `limitMs`: later ones never fire. How long the
 * machine takes does not count.
 */
export async function endsWithin(limitMs: number, work: () => Promise<unknown>): Promise<boolean> {
  let ended = false;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const working = work().then(() => (ended = true));
  await vi.advanceTimersByTimeAsync(limitMs);
  vi.useRealTimers();
  return Promise.race([working, vi.waitUntil(() => ended, PATIENCE).catch(() => false)]);
}
