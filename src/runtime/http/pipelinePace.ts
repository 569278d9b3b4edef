import type { Clock } from "../lifecycle/clock.ts";

const INTERVAL_MS = 10;
const WAITING_MAX = 1_000;

/** Calls `serve` now or later. False if too many wait already: then it is never called. */
export type PipelinePace = (serve: () => void) => boolean;

/**
 * Serves the requests of connections that pipeline one after another, 100 per second, first come, first served. At most
 * 1,000 wait. Served together, those of a few hundred connections would be a block of work.
 */
export function makePipelinePace(clock: Clock): PipelinePace {
  const waiting: (() => void)[] = [];
  let isRunning = false;

  async function run(): Promise<void> {
    isRunning = true;
    for (let serve = waiting.shift(); serve !== undefined; serve = waiting.shift()) {
      serve();
      await clock.sleep(INTERVAL_MS);
    }
    isRunning = false;
  }

  return (serve) => {
    if (waiting.length >= WAITING_MAX) return false;
    waiting.push(serve);
    if (!isRunning) void run();
    return true;
  };
}
