import type { Clock } from "../lifecycle/clock.ts";

/**
 * Asks whether a line about `key` may be logged now. Undefined: no, one was logged a moment ago. A number: yes,
 * and so many were left out since that one.
 */
export type LogSampler = (key: string) => number | undefined;

interface Sample {
  loggedAtMs: number;
  suppressed: number;
}

/**
 * Lets one line per key through in `intervalMs`, so that whoever floods us with bad requests, or a server that is
 * away, does not flood the log. Keys must come from a fixed set: each is remembered for ever.
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
