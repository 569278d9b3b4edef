import { schedule } from "node-cron";
import type { ScheduledTask } from "node-cron";

/** Calls functions every second, until they are removed. */
export interface Ticks {
  /** Returns a function that removes `look`, which must not throw. */
  add(look: () => void): () => Promise<void>;
}

const EVERY_SECOND = "* * * * * *";
const ignore = () => undefined;
const OPTIONS = {
  name: "poll",
  // A tick only checks whether something is due: late and missed ticks are harmless.
  logger: { info: ignore, warn: ignore, error: ignore, debug: ignore },
};

/** One cron for all pollers of a process: node-cron takes 0.1 ms to find the time of the next tick. */
export function makeTicks(): Ticks {
  const looks = new Set<() => void>();
  let task: ScheduledTask | undefined;
  return {
    add(look) {
      looks.add(look);
      task ??= schedule(EVERY_SECOND, () => looks.forEach((each) => each()), OPTIONS);
      return async () => {
        looks.delete(look);
        if (looks.size > 0) return;
        const last = task;
        task = undefined;
        await last?.destroy();
      };
    },
  };
}
