/** Reason of the signal when the deadline came first. */
export class DeadlineReached extends Error {
  override readonly name = "DeadlineReached";
}

/**
 * Runs `work` with a signal that is aborted at the deadline, by DeadlineReached, or by the caller's signal, with
 * its reason.
 *
 * Not `AbortSignal.any` of the caller's signal and `AbortSignal.timeout`: on Node 20 the caller's signal, which
 * lives as long as the process, keeps some 2 kB for each signal made from it.
 */
export async function withDeadline<Result>(
  { deadlineMs, signal }: { deadlineMs: number; signal: AbortSignal | undefined },
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const forward = () => controller.abort(signal?.reason);
  const timer = setTimeout(() => controller.abort(new DeadlineReached("deadline reached")), deadlineMs);
  signal?.addEventListener("abort", forward);
  try {
    signal?.throwIfAborted();
    return await work(controller.signal);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", forward);
  }
}
