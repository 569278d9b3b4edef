/** Resolves as `promise` does, or with "late" after `ms`: then the promise goes on, and its failure is nobody's. */
export async function withDeadline<Result>(promise: Promise<Result>, ms: number): Promise<Result | "late"> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    // A promise that lost the race may still reject, long after anybody listens.
    promise.catch(() => undefined);
  }
}
