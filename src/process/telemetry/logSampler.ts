import type { Clock } from "../clock.ts";

/** Whether to log a line about `key` now: undefined for no, else how many were skipped since the last one. */
export type LogSampler = (key: string) => number | undefined;

interface Sample {
  loggedAtMs: number;
  suppressed: number;
}

/** Allows a line per key in `intervalMs`. Keys must come from a fixed set: each is remembered forever. */
export function makeLogSampler(deps: { clock: Pick<Clock, "monotonicMs">; intervalMs: number }): LogSampler {
  const samples = new Map<string, Sample>();
  return (key) => {
    const nowMs = deps.clock.monotonicMs();
    const sample = samples.get(key);
    if (sample && nowMs - sample.loggedAtMs < deps.intervalMs) {
      sample.suppressed += 1;
      return undefined;
    }
    samples.set(key, { loggedAtMs: nowMs, suppressed: 0 });
    return sample?.suppressed ?? 0;
  };
}
