/**
 * Of each body so much is free: events are a few kilobytes, and Standard Webhooks advises senders to stay below 20. So a
 * small event is never refused for what others hold; the limit on connections bounds what is free together.
 */
const FREE_BYTES = 16_384;

/** What one body holds in memory. */
export interface BodyAccount {
  /** False, and nothing taken, when there is no room, also not at the expense of older bodies. */
  readonly take: (bytes: number) => boolean;
  /** The body is whole, and no longer given up for others. */
  readonly complete: () => void;
  /** Gives back all that was taken; harmless when called again. */
  readonly close: () => void;
}

/** Bytes that bodies may hold together, beyond what is free of each. */
export interface BodyBudget {
  /** `giveUp` is called when the body has to make room; its account is closed by then. */
  open(giveUp: () => void): BodyAccount;
}

/**
 * When there is no room, the body that has been coming for longest is given up: whoever sends a body and never its end
 * makes way for those who send theirs at once, whether or not either is genuine, which nobody knows before the end.
 */
export function makeBodyBudget(maxBytes: number): BodyBudget {
  let usedBytes = 0;
  /** Bodies that take room and are still coming, oldest first, with how to give each up. */
  const coming = new Map<BodyAccount, () => void>();

  function makeRoom(bytes: number, wanting: BodyAccount): boolean {
    for (const [oldest, giveUp] of coming) {
      if (usedBytes + bytes <= maxBytes || oldest === wanting) break;
      oldest.close();
      giveUp();
    }
    return usedBytes + bytes <= maxBytes;
  }

  return {
    open(giveUp) {
      let free = FREE_BYTES;
      let taken = 0;
      const account: BodyAccount = {
        take(bytes) {
          const beyond = Math.max(0, bytes - free);
          if (beyond > 0 && !makeRoom(beyond, account)) return false;
          free -= bytes - beyond;
          if (beyond > 0 && taken === 0) coming.set(account, giveUp);
          taken += beyond;
          usedBytes += beyond;
          return true;
        },
        complete: () => void coming.delete(account),
        close() {
          coming.delete(account);
          usedBytes -= taken;
          taken = 0;
        },
      };
      return account;
    },
  };
}
