import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";

/** An announcement may be lost, and proofs are not announced. @internal */
export const LOOK_MS = 400;

/** Tells requests that wait for something in the mirror when to look at the database again. */
export interface News {
  /**
   * Resolves at the next announcement, after LOOK_MS at the latest, and on close. Take it before you look: what arrives
   * during the look is then not missed. Until it resolves, everybody gets the same promise.
   */
  next(): Promise<void>;
  /** Changes were committed. */
  readonly announce: () => void;
  /** True once it is closed: there is nothing to wait for any more. */
  isOver(): boolean;
  close(): Promise<void>;
}

export function makeNews(clock: Clock): News {
  let over = false;
  let next = Promise.resolve();
  let tell: () => void = () => undefined;

  function announce(): void {
    const tellThese = tell;
    next = new Promise((resolve) => (tell = resolve));
    tellThese();
  }
  const run = () => Promise.resolve(announce());
  const loop = makeLoop({ run, everyMs: LOOK_MS, onError: () => undefined, clock });
  loop.start();

  return {
    next: () => next,
    announce,
    isOver: () => over,
    async close() {
      over = true;
      announce();
      await loop.stop();
    },
  };
}
