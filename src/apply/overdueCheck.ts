import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { BATCH_ROWS_MAX } from "./applySubjects.ts";

/** More recent events are left to the job that was enqueued for them. */
export const OVERDUE_AFTER_SECONDS = 5;
const INTERVAL_MS = 2_000;
/**
 * A pass of so many looks at every position: an event may be committed after one with a later position, or replayed.
 */
const PASSES_OF_A_ROUND = 30;

export interface OverdueCheckDeps {
  /** Positions of overdue events beyond `afterSeq`, oldest first, at most `limit`. */
  readonly takeOverdue: (query: { afterSeq: number; limit: number }) => Promise<readonly number[]>;
  /** The position before the first event beyond `afterSeq` that awaits a decision, overdue or not. */
  readonly findFirstPending: (query: { afterSeq: number }) => Promise<number>;
  readonly applyEvents: (seqs: readonly number[]) => Promise<readonly unknown[]>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Finds inbox rows that no job took: the queue was flushed, full or unavailable when they were committed. It makes the
 * product converge whatever happens to the queue, with the same code that jobs run.
 */
export function makeOverdueCheck(deps: OverdueCheckDeps) {
  const { takeOverdue, findFirstPending, applyEvents, clock, logger } = deps;
  let passes = 0;
  /**
   * The position from which the next pass begins. While a report holds a snapshot, entries of decided events cannot be
   * removed, and each pass would read them all again.
   */
  let firstSeq = 0;

  /** Applies all overdue events once; returns how many it decided. */
  async function runOnce(signal?: AbortSignal): Promise<number> {
    let decided = 0;
    if (passes % PASSES_OF_A_ROUND === 0) firstSeq = 0;
    let afterSeq = firstSeq;
    while (!signal?.aborted) {
      const seqs = await takeOverdue({ afterSeq, limit: BATCH_ROWS_MAX });
      if (seqs.length > 0) decided += (await applyEvents(seqs)).length;
      // Continues past positions that another worker holds: they must not hide the rest.
      afterSeq = seqs.at(-1) ?? afterSeq;
      if (seqs.length < BATCH_ROWS_MAX) break;
    }
    if (!signal?.aborted) firstSeq = await findFirstPending({ afterSeq: firstSeq });
    passes += 1;
    if (decided > 0) logger.info({ events: decided }, "applied overdue events that no job took");
    return decided;
  }

  const loop = makeLoop({
    run: async (signal) => void (await runOnce(signal)),
    everyMs: INTERVAL_MS,
    onError: (error) => logger.warn({ err: error }, "the check for overdue events failed; retrying"),
    clock,
  });
  return { runOnce, start: loop.start, close: loop.stop };
}
