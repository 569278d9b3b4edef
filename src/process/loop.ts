import type { Clock } from "./clock.ts";

export interface LoopOptions {
  /**
   * Runs once. Resolves with the milliseconds to pause before the next one: undefined for `everyMs`, Infinity to wait
   * for `wake`. `stop` aborts the signal. A run must not wait for the loop's own `stop`.
   */
  readonly run: (signal: AbortSignal) => Promise<number | void>;
  readonly everyMs: number;
  /**
   * Called with the reason why a run rejected and the number of consecutive failures, unless stopped; must not throw.
   */
  readonly onError: (error: unknown, failures: number) => void;
  /** The pause after an error: `minMs`, doubled with each further one, up to `maxMs`. Default `everyMs`, constant. */
  readonly backoff?: { readonly minMs: number; readonly maxMs: number };
  readonly pausesFirst?: boolean;
  readonly clock: Clock;
}

/**
 * Work that runs repeatedly, one run at a time.
 *
 *     new --start--> running <------> pausing (ended by its time, or by wake) --stop--> stopped
 *      +---------------------------------stop------------------------------------------>+
 */
export interface Loop {
  /** Begins. Does nothing on a loop that was started or stopped before. */
  readonly start: () => void;
  /** Starts the next run immediately, or after the current one. A pause after an error is not shortened. */
  readonly wake: () => void;
  /** Prevents further runs, and resolves when the current one has ended. Never rejects. */
  readonly stop: () => Promise<void>;
}

/** Makes a loop; it runs from `start` to `stop`. */
export function makeLoop(options: LoopOptions): Loop {
  const { run, everyMs, onError, clock, backoff = { minMs: everyMs, maxMs: everyMs } } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  let running: Promise<void> | undefined;
  let endPause: () => void = () => undefined;
  let woken = false;
  let failures = 0;

  async function runOnce(): Promise<number> {
    woken = false;
    try {
      const pauseMs = (await run(signal)) ?? everyMs;
      failures = 0;
      return pauseMs;
    } catch (error) {
      failures += 1;
      if (!signal.aborted) onError(error, failures);
      return Math.min(backoff.minMs * 2 ** (failures - 1), backoff.maxMs);
    }
  }

  async function rest(ms: number): Promise<void> {
    // Checked here, not when the run ends: a wake between the two would be lost, and the pause may be endless.
    if (ms <= 0 || signal.aborted || (woken && failures === 0)) return;
    const timer = new AbortController();
    await new Promise<void>((resolve) => {
      endPause = () => {
        resolve();
        // Later: an abort takes longer than everything else between a wake and the run, and somebody is waiting for
        // that.
        if (ms !== Infinity) setImmediate(() => timer.abort());
      };
      if (ms !== Infinity) clock.sleep(ms, timer.signal).then(resolve, resolve);
    });
  }

  async function runUntilStopped(): Promise<void> {
    if (options.pausesFirst) await rest(everyMs);
    while (!signal.aborted) await rest(await runOnce());
  }

  return {
    start() {
      if (!signal.aborted) running ??= runUntilStopped();
    },
    wake() {
      woken = true;
      if (failures === 0) endPause();
    },
    async stop() {
      stopping.abort(new Error("the loop is stopped"));
      endPause();
      await running;
    },
  };
}
