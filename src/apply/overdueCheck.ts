import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { BATCH_ROWS_MAX } from "./applySubjects.ts";

/** More recent events are left to the job that was enqueued for them. */
export const OVERDUE_AFTER_SECONDS = 5;
const INTERVAL_MS = 2_000;

export interface OverdueCheckDeps {
  /** Positions of overdue events beyond `afterSeq`, oldest first, at most `limit`. */
  readonly takeOverdue: (query: { afterSeq: number; limit: number }) => Promise<readonly number[]>;
  readonly applyEvents: (seqs: readonly number[]) => Promise<readonly unknown[]>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Finds inbox rows that no job took: the queue was flushed, full or unavailable when they were committed. It makes the
 * product converge whatever happens to the queue, with the same code that jobs run.
 */
export function makeOverdueCheck({ takeOverdue, applyEvents, clock, logger }: OverdueCheckDeps) {
  /** Applies all overdue events once; returns how many it decided. */
  async function runOnce(signal?: AbortSignal): Promise<number> {
    let decided = 0;
    let afterSeq = 0;
    while (!signal?.aborted) {
      const seqs = await takeOverdue({ afterSeq, limit: BATCH_ROWS_MAX });
      if (seqs.length > 0) decided += (await applyEvents(seqs)).length;
      // Continues past positions that another worker holds: they must not hide the rest.
      afterSeq = seqs.at(-1) ?? afterSeq;
      if (seqs.length < BATCH_ROWS_MAX) break;
    }
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
