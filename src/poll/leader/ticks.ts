import { schedule } from "node-cron";
import type { ScheduledTask } from "node-cron";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { makeLoop } from "../../runtime/lifecycle/loop.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

/** Calls functions every second, until they are removed. */
export interface Ticks {
  /**
   * Adds a function that begins work if it is due, returns whether it did, and must not throw. Returns a function that
   * removes it.
   */
  add(begin: () => boolean): () => Promise<void>;
}

const SECOND_MS = 1_000;
const LOOK_MS = 1_000;
/** A cron waits for an instant of the wall clock: when that is set back by hours, the next tick would be hours away. */
const SILENCE_MAX_MS = 3_000;
const ignore = () => undefined;
const OPTIONS = {
  name: "poll",
  timezone: "Etc/UTC",
  // An instant that was skipped, because the clock was set ahead or the machine slept, is late and not missed.
  missedExecutionTolerance: Number.MAX_SAFE_INTEGER,
  // A tick only checks whether something is due: missed and blocked ticks are harmless, so nothing is logged.
  logger: { info: ignore, warn: ignore, error: ignore, debug: ignore },
};

/**
 * In a tick at most this part of the functions begins, or BEGINNING_MIN: at a start, and after an outage, all are due at
 * once, and a thousand would wait for the connections until their time is over.
 */
const BEGINNING_SHARE = 1 / 20;
const BEGINNING_MIN = 50;

/**
 * One schedule for all pollers of a process: node-cron needs 0.1 ms to find the time of the next tick, which for a
 * thousand schedules would be a tenth of a core.
 *
 * Each tick schedules the next one. A cron for every second looks at each second that was skipped: after a day, because
 * the clock was set ahead or the machine slept, that occupied the process for half a minute.
 */
export function makeTicks(deps: { clock: Clock; logger: Logger }): Ticks {
  /** Those that began last are last. */
  const waiting = new Set<() => boolean>();
  let end: (() => Promise<void>) | undefined;

  function tick(): void {
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

  return {
    add(begin) {
      waiting.add(begin);
      end ??= startTicking(tick, deps);
      return async () => {
        waiting.delete(begin);
        if (waiting.size > 0 || end === undefined) return;
        const ended = end;
        end = undefined;
        await ended();
      };
    },
  };
}

/** Calls `tick` every second. Returns a function that ends it. */
function startTicking(
  tick: () => void,
  { clock, logger }: { clock: Clock; logger: Logger },
): () => Promise<void> {
  let tickedMs = clock.monotonicMs();
  let next: ScheduledTask | undefined = scheduleTick();
  const watch = makeLoop({
    async run() {
      if (clock.monotonicMs() - tickedMs >= SILENCE_MAX_MS) await replace();
    },
    everyMs: LOOK_MS,
    pausesFirst: true,
    onError: (error) => logger.warn({ err: error }, "could not start the tick again"),
    clock,
  });
  watch.start();

  function scheduleTick(): ScheduledTask {
    const task = schedule(
      describeNextSecond(),
      async () => {
        // Replaced or ended meanwhile.
        if (task !== next) return;
        tickedMs = clock.monotonicMs();
        tick();
        await replace();
      },
      OPTIONS,
    );
    return task;
  }

  async function replace(): Promise<void> {
    const former = next;
    next = scheduleTick();
    await former?.destroy();
  }

  return async () => {
    await watch.stop();
    const last = next;
    next = undefined;
    await last?.destroy();
  };
}

/** The next second of UTC that is not about to begin: one that begins meanwhile would only come again in a year. */
function describeNextSecond(): string {
  const at = new Date(Math.floor(Date.now() / SECOND_MS + 1.5) * SECOND_MS);
  const time = `${at.getUTCSeconds()} ${at.getUTCMinutes()} ${at.getUTCHours()}`;
  return `${time} ${at.getUTCDate()} ${at.getUTCMonth() + 1} *`;
}
