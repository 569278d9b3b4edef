import { makeLoop } from "../../runtime/lifecycle/loop.ts";
import type { RoleDeps } from "../role.ts";

/** Counts that a process accumulates and writes to the database periodically. */
export interface Tally<Count> {
  readonly add: (count: Count) => void;
  /** Writes what was added since the last time; what cannot be written is kept for the next. */
  readonly flush: () => Promise<void>;
}

export function makeTally<Count>(deps: {
  readonly keyOf: (count: Count) => string;
  /** Both counts together; `sum` has the key of `count`. */
  readonly join: (sum: Count, count: Count) => Count;
  readonly write: (counts: readonly Count[]) => Promise<void>;
}): Tally<Count> {
  const { keyOf, join, write } = deps;
  let sums = new Map<string, Count>();

  function add(count: Count): void {
    const key = keyOf(count);
    const sum = sums.get(key);
    sums.set(key, sum === undefined ? count : join(sum, count));
  }

  async function flush(): Promise<void> {
    const counts = [...sums.values()];
    if (counts.length === 0) return;
    sums = new Map();
    try {
      await write(counts);
    } catch (error) {
      counts.forEach(add);
      throw error;
    }
  }

  return { add, flush };
}

/** Flushes a tally every `everyMs`, and at the end. */
export function saveTally(
  { clock, logger, shutdown }: Pick<RoleDeps, "clock" | "logger" | "shutdown">,
  saved: { name: string; everyMs: number } & Pick<Tally<never>, "flush">,
): void {
  const { name, everyMs, flush } = saved;
  const onError = (error: unknown) => {
    logger.debug({ err: error, name }, "could not write down what was counted; it is kept");
  };
  const loop = makeLoop({ run: flush, everyMs, onError, pausesFirst: true, clock });
  loop.start();
  shutdown.onShutdown(name, async () => {
    await loop.stop();
    await flush().catch(onError);
  });
}
