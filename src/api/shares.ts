import type { RefusedRequestError } from "../wire/refusal.ts";

/** A resource of one process that all its clients share, such as streams or bytes in memory. */
export interface Shares {
  /**
   * Takes `amount` (default 1) for a client, and returns the function that gives it back. Throws the refusal once
   * everything or the client's own half is taken; the last amount may go beyond, so that the largest answer can be
   * given at all.
   */
  take(client: string, amount?: number): () => void;
  /** Throws the refusal if `take` would. */
  assertFree(client: string): void;
}

/** Shares `total` among clients: each may have half of it, so that no client can keep all others out. */
export function makeShares(total: number, refuse: () => RefusedRequestError): Shares {
  const half = Math.max(1, Math.floor(total / 2));
  const takenBy = new Map<string, number>();
  let taken = 0;

  function assertFree(client: string): void {
    if (taken >= total || (takenBy.get(client) ?? 0) >= half) throw refuse();
  }
  function add(client: string, amount: number): void {
    taken += amount;
    const now = (takenBy.get(client) ?? 0) + amount;
    if (now === 0) takenBy.delete(client);
    else takenBy.set(client, now);
  }
  return {
    assertFree,
    take(client, amount = 1) {
      assertFree(client);
      add(client, amount);
      let isTaken = true;
      return () => {
        if (isTaken) add(client, -amount);
        isTaken = false;
      };
    },
  };
}
