import { schedule } from "node-cron";
import type { ScheduledTask } from "node-cron";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { makeLoop } from "../../runtime/lifecycle/loop.ts";
import type { Loop } from "../../runtime/lifecycle/loop.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

/** Calls functions every second, until they are removed. */
export interface Ticks {
  /** Adds a function that begins work if it is due, returns whether it did, and must not throw. Returns a function that removes it. */
  add(begin: () => boolean): () => Promise<void>;
}

const EVERY_SECOND = "* * * * * *";
const LOOK_MS = 1_000;
/** A cron waits for an instant of the wall clock: when that is set back by hours, the next tick would be hours away. */
const SILENCE_MAX_MS = 3_000;
const ignore = () => undefined;
const SILENT = { info: ignore, warn: ignore, error: ignore, debug: ignore };

/**
 * In a tick at most this part of the functions begins, or BEGINNING_MIN: at a start, and after an outage, all are due at
 * once, and a thousand would wait for the connections until their time is over.
 */
const BEGINNING_SHARE = 1 / 20;
const BEGINNING_MIN = 50;

/**
 * One schedule for all pollers of a process: node-cron needs 0.1 ms to find the time of the next tick, which for a
 * thousand schedules would be a tenth of a core.
 */
export function makeTicks(deps: { clock: Clock; logger: Logger }): Ticks {
  const { clock, logger } = deps;
  /** Those that began last are last. */
  const waiting = new Set<() => boolean>();
  let running: { readonly task: ScheduledTask; readonly watch: Loop } | undefined;
  let tickedMs = 0;

  function tick(): void {
    tickedMs = clock.monotonicMs();
    const most = Math.max(BEGINNING_MIN, Math.floor(waiting.size * BEGINNING_SHARE));
    const begun: (() => boolean)[] = [];
    for (const begin of waiting) {
      if (begin()) begun.push(begin);
      if (begun.length >= most) break;
    }
    for (const begin of begun) {
      waiting.delete(begin);
      waiting.add(begin);
    }
  }

  function start(): { task: ScheduledTask; watch: Loop } {
    tickedMs = clock.monotonicMs();
    // A tick only checks whether something is due: missed and blocked ticks are harmless, so nothing is logged.
    const task = schedule(EVERY_SECOND, tick, { name: "poll", timezone: "Etc/UTC", logger: SILENT });
    const watch = makeLoop({
      async run() {
        if (clock.monotonicMs() - tickedMs < SILENCE_MAX_MS) return;
        await task.stop();
        await task.start();
      },
      everyMs: LOOK_MS,
      pausesFirst: true,
      onError: (error) => logger.warn({ err: error }, "could not start the tick again"),
      clock,
    });
    watch.start();
    return { task, watch };
  }

  return {
    add(begin) {
      waiting.add(begin);
      running ??= start();
      return async () => {
        waiting.delete(begin);
        if (waiting.size > 0 || running === undefined) return;
        const { task, watch } = running;
        running = undefined;
        await watch.stop();
        await task.destroy();
      };
    },
  };
}
