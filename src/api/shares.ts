import { refuseBusy } from "../wire/refusal.ts";

/** Exports at once in one process, each with a connection of its own. */
export const EXPORTS_MAX = 4;

/** The resources of one process that all its clients share: how many there are, and what the API says beyond that. */
const RESOURCES = {
  exports: { max: EXPORTS_MAX, sentence: "Too many exports are under way.", retrySeconds: 5 },
  /** Each costs a socket and its unsent content. */
  streams: { max: 200, sentence: "Too many streams are open.", retrySeconds: 30 },
  waits: { max: 500, sentence: "Too many requests are waiting.", retrySeconds: 5 },
  /** Bytes of answers that clients have asked for and not read yet; the process keeps about as many in memory. */
  unread: { max: 64 * 1024 * 1024, sentence: "Too many answers are not read yet.", retrySeconds: 5 },
} as const;

/** A resource that clients share. */
export interface Shares {
  /**
   * Takes `amount` (default 1) for a client, and returns the function that gives it back. Throws RefusedRequestError,
   * 503 `too_many_…`, once everything or the client's own half is taken; the last amount may go beyond, so that the
   * largest answer can be given at all.
   */
  take(client: string, amount?: number): () => void;
  /** Throws what `take` would. */
  assertFree(client: string): void;
}

/** Shares a resource among clients: each may have half of it, so that no client can keep all others out. */
export function makeShares(name: keyof typeof RESOURCES, total: number = RESOURCES[name].max): Shares {
  const { sentence, retrySeconds } = RESOURCES[name];
  const half = Math.max(1, Math.floor(total / 2));
  const takenBy = new Map<string, number>();
  let taken = 0;

  function assertFree(client: string): void {
    if (taken >= total || (takenBy.get(client) ?? 0) >= half)
      throw refuseBusy(`too_many_${name}`, sentence, retrySeconds);
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
