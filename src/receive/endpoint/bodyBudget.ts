/**
 * This much of each body is free: events are a few kilobytes, and Standard Webhooks advises senders to stay below 20.
 * So a small event is never refused because of others; the limit on connections bounds the total.
 */
const FREE_BYTES = 16_384;

/** The memory used by one body. */
export interface BodyAccount {
  /** False, and nothing is taken, if there is no room even without older bodies. */
  readonly take: (bytes: number) => boolean;
  /** The body is complete and can no longer be dropped in favour of others. */
  readonly complete: () => void;
  /** Returns everything that was taken; may be called again. */
  readonly close: () => void;
}

/** Bytes that all bodies together may use, beyond the free part of each. */
export interface BodyBudget {
  /** `giveUp` is called if the body has to make room; its account is then closed. */
  open(giveUp: () => void): BodyAccount;
}

/**
 * If there is no room, the body that has been arriving for the longest time is dropped: senders that never finish make
 * room for those that send promptly. Whether either is genuine is unknown before the end.
 */
export function makeBodyBudget(maxBytes: number): BodyBudget {
  let usedBytes = 0;
  /** Incomplete bodies that take room, oldest first, each with the function that drops it. */
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
