/** Tells any number of waiters that something has come. */
export interface News {
  /** How often there was news; to be taken before looking at what is there, and handed to `onNext`. */
  count(): number;
  /**
   * Calls `listener` once, at the next news after number `seen`, or immediately if there has been newer news. Returns a
   * function that stops waiting. Not a promise: one that is raced repeatedly collects every racer until it resolves.
   */
  onNext(seen: number, listener: () => void): () => void;
  tell(): void;
}

export function makeNews(): News {
  let count = 0;
  const listeners = new Set<() => void>();
  return {
    count: () => count,
    onNext(seen, listener) {
      if (count === seen) listeners.add(listener);
      else listener();
      return () => listeners.delete(listener);
    },
    tell() {
      count += 1;
      const waiting = [...listeners];
      listeners.clear();
      for (const listener of waiting) listener();
    },
  };
}
