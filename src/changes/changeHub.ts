import { UnavailableError } from "../domain/errors.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";
import type { Loop } from "../runtime/lifecycle/loop.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { readFeed } from "./feedReader.ts";
import type { FeedCursor } from "./changeFeed.sql.ts";
import { makeFeedTail } from "./feedTail.ts";
import type { FeedBatch, FeedTail } from "./feedTail.ts";
import type { News } from "./news.ts";

/** How often the table is read while there are readers: for announcements that were lost. @internal */
export const LOOK_MS = 400;
const LOOK_AFTER_ERROR_MS = 1_000;
const SECTION_LIMIT = 100;

export interface SubscriptionOptions {
  /** After this long without news, `next` resolves with nothing. */
  readonly waitMs: number;
  /** Ends the waiting. */
  readonly signal: AbortSignal;
}

const NOTHING: FeedBatch = { entries: [], complete: null };

/** One reader of a source's changes. */
export interface FeedSubscription {
  /**
   * The next changes behind `after`, at least one, or a proof up to another instant than `completeThrough`; neither when nothing
   * came within `waitMs`, or when the hub is closed. Throws what readFeed throws; rejects with the signal's reason when
   * that is aborted.
   */
  next(after: FeedCursor, completeThrough: Instant | undefined): Promise<FeedBatch>;
  close(): void;
}

export interface ChangeHub {
  subscribe(sourceId: string, options: SubscriptionOptions): FeedSubscription;
  /**
   * Reads new changes now instead of at the next interval, because changes were announced. Does nothing without
   * readers.
   */
  look(): void;
  /** True once the hub is closed: there is nothing to wait for any more. */
  isClosed(): boolean;
  close(): Promise<void>;
}

interface LookDeps {
  readonly tails: ReadonlyMap<string, SharedTail>;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface SharedTail {
  readonly tail: FeedTail;
  readers: number;
}

/** Looks for changes once per process and source, however many read them. */
export function makeChangeHub(deps: { pool: Pool; clock: Clock; logger: Logger }): ChangeHub {
  const { pool, clock, logger } = deps;
  const tails = new Map<string, SharedTail>();
  const closing = new AbortController();
  const look = makeLook({ tails, clock, logger });
  look.start();

  async function next(
    { sourceId, tail, wait, signal }: { sourceId: string; tail: FeedTail; wait: Wait; signal: AbortSignal },
    after: FeedCursor,
    completeThrough: Instant | undefined,
  ): Promise<FeedBatch> {
    for (let waited = false; !closing.signal.aborted;) {
      signal.throwIfAborted();
      const seen = tail.news.count();
      const batch = tail.take(after, SECTION_LIMIT) ?? (await readBehind(sourceId, after));
      const isProof = batch.complete !== null && batch.complete.through !== completeThrough;
      if (batch.entries.length > 0 || isProof || waited) return batch;
      waited = !(await wait.forNews(seen));
    }
    return NOTHING;
  }

  /** Empty while the database is unavailable: the next successful query is news. */
  async function readBehind(sourceId: string, after: FeedCursor): Promise<FeedBatch> {
    try {
      return await readFeed(pool, { sourceId, after, limit: SECTION_LIMIT });
    } catch (error) {
      if (error instanceof UnavailableError) return NOTHING;
      throw error;
    }
  }

  return {
    subscribe(sourceId, { waitMs, signal }) {
      const shared = tails.get(sourceId) ?? { tail: makeFeedTail({ pool, sourceId }), readers: 0 };
      tails.set(sourceId, shared);
      shared.readers += 1;
      if (shared.readers === 1) look.wake();
      const { tail } = shared;
      const wait = makeWait({ news: tail.news, waitMs, signal });
      let open = true;
      return {
        next: (after, completeThrough) => next({ sourceId, tail, wait, signal }, after, completeThrough),
        close() {
          if (!open) return;
          open = false;
          wait.stop();
          shared.readers -= 1;
          if (shared.readers === 0) tails.delete(sourceId);
        },
      };
    },
    look: look.wake,
    isClosed: () => closing.signal.aborted,
    async close() {
      closing.abort(new Error("the change feed is closing"));
      for (const { tail } of tails.values()) tail.news.tell();
      await look.stop();
    },
  };
}

/** Looks again and again while there are readers; `wake` says that there are, or that changes were announced. */
function makeLook({ tails, clock, logger }: LookDeps): Loop {
  let failed = false;
  return makeLoop({
    async run() {
      if (tails.size === 0) return Infinity;
      await Promise.all([...tails.values()].map(({ tail }) => tail.look()));
      // Readers whose own read failed look again now.
      if (failed) for (const { tail } of tails.values()) tail.news.tell();
      failed = false;
      return LOOK_MS;
    },
    everyMs: LOOK_AFTER_ERROR_MS,
    onError(error) {
      if (!failed) logger.warn({ err: error }, "the change feed cannot be read and will be tried again");
      failed = true;
    },
    clock,
  });
}

/** The waits of one reader, one after the other. */
interface Wait {
  /** Resolves with true at news after the `seen`-th; with false after `waitMs`, or when the signal is aborted. */
  forNews(seen: number): Promise<boolean>;
  stop(): void;
}

/** All waits share a timer and a listener: new ones for each of 200 readers took longer than writing the change to them. */
function makeWait({ news, waitMs, signal }: SubscriptionOptions & { news: News }): Wait {
  let end: (isNews: boolean) => void = () => undefined;
  const timer = setTimeout(() => end(false), waitMs);
  const abort = () => end(false);
  signal.addEventListener("abort", abort);
  return {
    async forNews(seen) {
      if (signal.aborted) return false;
      timer.refresh();
      let stop: () => void = () => undefined;
      const isNews = await new Promise<boolean>((resolve) => {
        end = resolve;
        stop = news.onNext(seen, () => resolve(true));
      });
      stop();
      return isNews;
    },
    stop() {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    },
  };
}
