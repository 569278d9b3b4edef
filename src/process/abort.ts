/** Reason of the signal when the deadline passed first. */
export class DeadlineReached extends Error {
  override readonly name = "DeadlineReached";
}

/**
 * Runs `work` with a signal that is aborted with the first of `signals`, for the same reason.
 *
 * Not `AbortSignal.any`: on Node 20 a signal that lives as long as the process keeps about 2 kB for each signal made
 * from it.
 */
export async function withSignals<Result>(
  signals: readonly (AbortSignal | undefined)[],
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const forwards = signals.flatMap((signal) => {
    if (signal === undefined) return [];
    const forward = () => controller.abort(signal.reason);
    if (signal.aborted) forward();
    signal.addEventListener("abort", forward);
    return [{ signal, forward }];
  });
  try {
    controller.signal.throwIfAborted();
    return await work(controller.signal);
  } finally {
    for (const { signal, forward } of forwards) signal.removeEventListener("abort", forward);
  }
}

/** Runs `work` with a signal that is aborted at the deadline, by DeadlineReached, or by the caller's signal. */
export async function withDeadline<Result>(
  { deadlineMs, signal }: { deadlineMs: number; signal: AbortSignal | undefined },
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(new DeadlineReached("deadline reached")), deadlineMs);
  try {
    return await withSignals([signal, deadline.signal], work);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves as `promise` does, or with "late" after `ms`. The promise then continues, and its failure is ignored. */
export async function withTimeout<Result>(promise: Promise<Result>, ms: number): Promise<Result | "late"> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    // A promise that lost the race may still reject after nobody listens any more.
    promise.catch(() => undefined);
  }
}
