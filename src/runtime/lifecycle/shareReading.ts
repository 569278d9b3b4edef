import type { Clock } from "./clock.ts";

/**
 * Shares one run of `read` among all callers within `holdMs` of its start. A failure goes to all current callers but is
 * not cached.
 */
export function shareReading<Result>(
  read: () => Promise<Result>,
  { clock, holdMs }: { clock: Pick<Clock, "monotonicMs">; holdMs: number },
): () => Promise<Result> {
  let held: Promise<Result> | undefined;
  let begunMs = 0;
  return () => {
    if (held !== undefined && clock.monotonicMs() - begunMs < holdMs) return held;
    begunMs = clock.monotonicMs();
    const reading = read();
    held = reading;
    reading.catch(() => {
      if (held === reading) held = undefined;
    });
    return reading;
  };
}
