/**
 * Runs `work` with a signal that is aborted with the first of `signals`, for the same reason.
 *
 * Not `AbortSignal.any`: on Node 20 a signal that lives as long as the process keeps some 2 kB for each signal made
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
