import { setImmediate as nextTurn } from "node:timers/promises";
import { findArrived, type Awaited } from "../orders/orderReads.sql.ts";
import type { Pool } from "../database/database.ts";
import type { Clock } from "../process/clock.ts";
import type { News } from "./news.ts";
import { makeShares } from "./shares.ts";

/**
 * Resolves true as soon as the mirror has what is awaited; false after `timeoutMs`, when the signal is aborted, or when
 * the process closes. Looks at least once. Rejects with the error of the database, and with RefusedRequestError, 503
 * too_many_waits, if too many are waiting already.
 */
export type OrderWait = (
  awaited: Awaited,
  options: { client: string; timeoutMs: number; signal: AbortSignal },
) => Promise<boolean>;

/** Lets requests wait for changes of single orders and for proofs. */
export function makeOrderWait(deps: { pool: Pool; clock: Clock; news: News }): OrderWait {
  const { clock, news } = deps;
  const look = makeSharedLook(deps.pool);
  const waits = makeShares("waits");

  return async (awaited, { client, timeoutMs, signal }) => {
    const leave = waits.take(client);
    const done = new AbortController();
    let isTimeOver = timeoutMs === 0;
    const end = clock
      .sleep(timeoutMs, AbortSignal.any([signal, done.signal]))
      .catch(() => undefined)
      .then(() => (isTimeOver = true));
    try {
      while (!news.isOver() && !signal.aborted) {
        const [later, isLast] = [news.next(), isTimeOver];
        if (await look(awaited)) return true;
        if (isLast) return false;
        await Promise.race([later, end]);
      }
      return false;
    } finally {
      done.abort();
      leave();
    }
  };
}

/** Answers with one statement all who ask in the same turn of the event loop, as after news. */
function makeSharedLook(pool: Pool): (awaited: Awaited) => Promise<boolean> {
  let asked: Awaited[] = [];
  let answer: Promise<ReadonlySet<number>> | undefined;

  async function answerAll(): Promise<ReadonlySet<number>> {
    await nextTurn();
    const all = asked;
    [asked, answer] = [[], undefined];
    return new Set(await findArrived(pool, all));
  }
  return async (awaited) => {
    const index = asked.push(awaited) - 1;
    answer ??= answerAll();
    return (await answer).has(index);
  };
}
