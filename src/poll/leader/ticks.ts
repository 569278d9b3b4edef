import { schedule } from "node-cron";

/** Calls functions every second, until they are removed. */
export interface Ticks {
  /** Returns a function that removes `look`, which must not throw. */
  add(look: () => void): () => Promise<void>;
}

const EVERY_SECOND = "* * * * * *";
const ignore = () => undefined;

/** One cron for all pollers of a process: node-cron takes 0.1 ms to find the time of the next tick. */
export function makeTicks(): Ticks {
  const looks = new Set<() => void>();
  const task = schedule(EVERY_SECOND, () => looks.forEach((look) => look()), {
    name: "poll",
    // A tick only checks whether something is due: late and missed ticks are harmless.
    logger: { info: ignore, warn: ignore, error: ignore, debug: ignore },
  });
  return {
    add(look) {
      looks.add(look);
      return async () => {
        looks.delete(look);
        if (looks.size === 0) await task.destroy();
      };
    },
  };
}
