import { advanceFacts, beginFacts } from "../ledger/orderFacts.sql.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { LeaderTask } from "./leaderTasks.ts";

const BATCH = 2_000;
/** A longer backlog, of a new source for example, is continued after the next cycle: polling comes first. */
const RUN_MS_MAX = 5_000;

/** After each cycle, brings the rows of mirror.order_facts up to date with the change feed. */
export function makeKeepFacts({
  pool,
  source,
  clock,
}: Pick<PollDeps, "source" | "pool" | "clock">): LeaderTask {
  const { sourceId } = source;
  let newestObservation: string | undefined;
  return {
    name: "keep facts",
    everyMs: 0,
    concerns: ({ newestChange, newestObservation: newest, historySince, safeThrough, lastBreach }) => [
      newestChange,
      newest,
      historySince,
      safeThrough,
      lastBreach,
    ],
    async run({ signal }) {
      const endMs = clock.monotonicMs() + RUN_MS_MAX;
      const pass = await beginFacts(pool, sourceId);
      // A new observation may be of a writer that is still open; after the next cycle it is not.
      const isQuiet = pass.newestObservation === newestObservation;
      newestObservation = pass.newestObservation;
      if (pass.done) return isQuiet ? undefined : "again";
      let { fence } = pass;
      for (let step = BigInt(pass.step); clock.monotonicMs() < endMs; step += 1n) {
        signal.throwIfAborted();
        const batch = await advanceFacts(pool, sourceId, {
          ...pass,
          step: String(step),
          fence,
          limit: BATCH,
        });
        // A writer that is still open holds the fence; what it writes is read after the next cycle.
        if (batch.done && batch.read === 0 && isQuiet) return;
        if (!batch.written || batch.done || (batch.read === 0 && batch.fence === fence)) break;
        fence = batch.fence;
      }
      return "again";
    },
  };
}
