import { lateTailSeconds, lookbackFor, tuneMargins } from "../../domain/window/lateness.ts";
import type { Margins } from "../../domain/window/lateness.ts";
import { readArrivals, readMargins, recordArrivals, recordMargins } from "../ledger/arrivals.sql.ts";
import type { ArrivalLog } from "./arrivalLog.ts";
import type { LeaderTask } from "../tasks/leaderTasks.ts";
import type { PollDeps } from "../cycle/deps.ts";

export interface Tuner {
  /** The margins in force: the configured ones, until `resume` or the task has run. */
  current(): Margins;
  /** How far back the delayed sweep looks occasionally, from the same measurements. */
  lookbackSeconds(): number;
  /** Adopts what earlier leaders have learned: a term starts with it, before anything is proved. */
  resume(): Promise<void>;
  readonly task: LeaderTask;
}

const EVERY_MS = 300_000;

/** Tunes settle time and overlap every five minutes, from the lateness of the changes of the last seven days. */
export function makeTuner(
  { source, pool, logger, settleSeconds, overlapSeconds }: PollDeps,
  arrivals: ArrivalLog,
): Tuner {
  const { sourceId } = source;
  let margins: Margins = { settleSeconds, overlapSeconds };
  let lookbackSeconds = lookbackFor(0);
  return {
    current: () => margins,
    lookbackSeconds: () => lookbackSeconds,
    async resume() {
      const stored = await readMargins(pool, sourceId);
      // The configured values may have been raised since.
      margins = {
        settleSeconds: Math.max(settleSeconds, stored?.settleSeconds ?? 0),
        overlapSeconds: Math.max(overlapSeconds, stored?.overlapSeconds ?? 0),
      };
      lookbackSeconds = lookbackFor(stored?.tailSeconds ?? 0);
    },
    task: {
      name: "tune settle time and overlap",
      everyMs: EVERY_MS,
      async run({ term }) {
        // If they cannot be recorded, these five minutes are lost; seven days have plenty more.
        const fresh = arrivals.take();
        if (fresh.length > 0) await recordArrivals(pool, term.lease, { sourceId, counts: fresh });
        const counts = await readArrivals(pool, sourceId);
        const tuned = tuneMargins(counts, { settleSeconds, overlapSeconds });
        const tailSeconds = lateTailSeconds(counts);
        const settleIs = tuned.settleSeconds === margins.settleSeconds;
        if (!settleIs || tuned.overlapSeconds !== margins.overlapSeconds) {
          const figures = { settle_seconds: tuned.settleSeconds, overlap_seconds: tuned.overlapSeconds };
          logger.info({ ...figures, late_tail_seconds: tailSeconds }, "tuned settle time and overlap");
        }
        margins = tuned;
        lookbackSeconds = lookbackFor(tailSeconds);
        await recordMargins(pool, term.lease, { sourceId, margins, tailSeconds });
      },
    },
  };
}
