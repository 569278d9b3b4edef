import type { Consumer } from "../consume.ts";
import { unlessLate } from "../../runtime/lifecycle/abort.ts";
import type { Hint, Hints } from "./hints.ts";

const CLOSE_DEADLINE_MS = 3_000;
/** Beyond this a hint is dropped: its job waits in the queue, where another worker may take it. */
const EVENTS_UNDER_WAY_MAX = 2_000;

/** Runs `apply` for each hint that arrives. A failed one is left to its job, which retries and logs the reason. */
export function startHintConsumer({
  hints,
  apply,
}: {
  hints: Pick<Hints, "listen">;
  apply: (hint: Hint) => Promise<void>;
}): Consumer {
  const underWay = new Set<Promise<void>>();
  let events = 0;

  async function take(hint: Hint): Promise<void> {
    events += hint.seqs.length;
    await apply(hint).catch(() => undefined);
    events -= hint.seqs.length;
  }

  const listener = hints.listen((hint) => {
    if (events >= EVENTS_UNDER_WAY_MAX) return;
    const taken = take(hint);
    underWay.add(taken);
    void taken.then(() => underWay.delete(taken));
  });
  return {
    async close() {
      await listener.close();
      await unlessLate(Promise.all(underWay), CLOSE_DEADLINE_MS);
    },
  };
}
