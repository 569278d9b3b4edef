import { instantFromMillis, type Instant } from "../domain/order/instant.ts";

/** Time as a dependency: code that decides by time gets it as an argument. Deadline timers use the machine's clock. */
export interface Clock {
  /** Local wall clock. Never used for versions or the bounds of windows: those are provider time. */
  readonly now: () => Instant;
  /** Milliseconds since an arbitrary start; never goes back. Use it to measure durations. */
  readonly monotonicMs: () => number;
  /**
   * Resolves after at least `ms` milliseconds; rejects with the signal's reason when that is aborted first. With
   * `keepsProcess` false, a process that has nothing else to do ends meanwhile.
   */
  readonly sleep: (ms: number, signal?: AbortSignal, keepsProcess?: boolean) => Promise<void>;
}

/** A longer timeout overflows Node's timer, which then fires after 1 ms. */
export const TIMER_MAX_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => instantFromMillis(Date.now()),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal, keepsProcess = true) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      let timer = wait(ms);
      const abort = () => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener("abort", abort, { once: true });

      function wait(leftMs: number): NodeJS.Timeout {
        const timeout = setTimeout(
          () => {
            if (leftMs > TIMER_MAX_MS) return void (timer = wait(leftMs - TIMER_MAX_MS));
            signal?.removeEventListener("abort", abort);
            resolve();
          },
          Math.min(leftMs, TIMER_MAX_MS),
        );
        return keepsProcess ? timeout : timeout.unref();
      }
    }),
};
