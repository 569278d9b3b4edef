import type { Clock } from "../lifecycle/clock.ts";

/**
 * Whether a line about `key` may be logged now. Undefined: no, one was logged a moment ago. A number: yes, and this
 * many were skipped since that one.
 */
export type LogSampler = (key: string) => number | undefined;

interface Sample {
  loggedAtMs: number;
  suppressed: number;
}

/**
 * Allows one line per key in `intervalMs`, so that a flood of bad requests, or an unavailable server, does not flood
 * the log. Keys must come from a fixed set: each is remembered forever.
 */
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
