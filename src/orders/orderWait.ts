import { findArrived, type Awaited } from "./orderReads.sql.ts";
import type { Pool } from "../database/database.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";
import { RefusedRequestError } from "../wire/refusal.ts";
import { readOrUnavailable } from "../http/respond.ts";

/** One statement per interval answers all waiting requests. */
const LOOK_MS = 50;
/** While nobody waits for an order: proofs arrive every few seconds at most. */
const LOOK_FOR_PROOFS_MS = 500;
const WAITERS_MAX = 500;
const BUSY_RETRY_SECONDS = 5;

export interface OrderWait {
  /**
   * Resolves true as soon as the mirror has what is awaited; false after `timeoutMs`, when the signal is aborted, or on
   * close. Throws UnavailableError if the database is unavailable, and
   * RefusedRequestError, 503 too_many_waits, if too many are waiting already.
   */
  wait(awaited: Awaited, options: { timeoutMs: number; signal: AbortSignal }): Promise<boolean>;
  /** Looks now: changes were announced. */
  look(): void;
  close(): void;
}

interface Waiter {
  readonly awaited: Awaited;
  /** Its time is over: it ends with the look that is under way, or the next one, so that everyone has at least one. */
  expired: boolean;
  end(arrived: boolean): void;
  fail(error: unknown): void;
}

/** Lets requests wait for changes of single orders and for proofs, with one look at the database at a time for all of them. */
export function makeOrderWait({ pool, clock }: { pool: Pool; clock: Clock }): OrderWait {
  const waiters = new Set<Waiter>();
  let closed = false;

  async function look(): Promise<number> {
    if (waiters.size === 0) return Infinity;
    const asked = [...waiters];
    try {
      const arrived = await readOrUnavailable(
        findArrived(
          pool,
          asked.map(({ awaited }) => awaited),
        ),
      );
      for (const index of arrived) asked[index]?.end(true);
      for (const waiter of asked) if (waiter.expired) waiter.end(false);
    } catch (error) {
      for (const waiter of asked) waiter.fail(error);
    }
    return pauseMs(waiters);
  }
  // Every error reaches those who wait.
  const loop = makeLoop({ run: look, everyMs: LOOK_MS, onError: () => undefined, clock });
  loop.start();

  return {
    wait(awaited, { timeoutMs, signal }) {
      if (closed || signal.aborted) return Promise.resolve(false);
      if (waiters.size >= WAITERS_MAX) return Promise.reject(refuseWait());
      return new Promise<boolean>((resolve, reject) => {
        const over = new AbortController();
        const finish = (report: () => void) => {
          waiters.delete(waiter);
          over.abort();
          report();
        };
        const waiter: Waiter = {
          awaited,
          expired: timeoutMs === 0,
          end: (arrived) => finish(() => resolve(arrived)),
          fail: (error) => finish(() => reject(error as Error)),
        };
        waiters.add(waiter);
        loop.wake();
        signal.addEventListener("abort", () => waiter.end(false), { signal: over.signal });
        clock.sleep(timeoutMs, over.signal).then(
          () => {
            waiter.expired = true;
            loop.wake();
          },
          () => undefined,
        );
      });
    },
    look: loop.wake,
    close() {
      closed = true;
      for (const waiter of waiters) waiter.end(false);
      void loop.stop();
    },
  };
}

function pauseMs(waiters: ReadonlySet<Waiter>): number {
  if (waiters.size === 0) return Infinity;
  return [...waiters].some(({ awaited }) => awaited.reference !== null) ? LOOK_MS : LOOK_FOR_PROOFS_MS;
}

/** The refusal of one more request that would have to wait. */
function refuseWait(): RefusedRequestError {
  const headers = { "Retry-After": String(BUSY_RETRY_SECONDS) };
  const message = "Too many requests are waiting.";
  return new RefusedRequestError({ status: 503, code: "too_many_waits", message, headers });
}
