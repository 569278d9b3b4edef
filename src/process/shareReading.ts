import type { Clock } from "./clock.ts";

/** Shares one run of `read` while it is under way and for `holdMs` from its start. Failures are not kept. */
export function shareReading<Result>(
  read: () => Promise<Result>,
  { clock, holdMs }: { clock: Pick<Clock, "monotonicMs">; holdMs: number },
): () => Promise<Result> {
  let held: Promise<Result> | undefined;
  let isUnderWay = false;
  let begunMs = 0;
  return () => {
    if (held !== undefined && (isUnderWay || clock.monotonicMs() - begunMs < holdMs)) return held;
    begunMs = clock.monotonicMs();
    isUnderWay = true;
    held = read().finally(() => (isUnderWay = false));
    held.catch(() => (held = undefined));
    return held;
  };
}
