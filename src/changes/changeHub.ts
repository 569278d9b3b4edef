import { UnavailableError } from "../domain/errors.ts";
import type { Pool } from "../database/database.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";
import type { Loop } from "../runtime/lifecycle/loop.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { readFeed } from "./feedReader.ts";
import type { FeedCursor } from "./changeFeed.sql.ts";
import { makeFeedTail } from "./feedTail.ts";
import type { FeedBatch, FeedTail } from "./feedTail.ts";

/** How often the table is read while there are readers: for announcements that were lost. @internal */
export const LOOK_MS = 400;
const LOOK_AFTER_ERROR_MS = 1_000;
const SECTION_LIMIT = 100;

const NOTHING: FeedBatch = { entries: [], complete: null };

/** One reader of a source's changes. */
export interface FeedSubscription {
  /** The next changes behind `after` and what holds there, if they are in memory. */
  take(after: FeedCursor): FeedBatch | undefined;
  /**
   * The same from the database; empty while it is unavailable, because the next successful query is news. Rejects as
   * readFeed does.
   */
  read(after: FeedCursor): Promise<FeedBatch>;
  close(): void;
}

export interface ChangeHub {
  /** Calls `onNews`, which must not throw, whenever there may be changes or a proof, and when the hub is closed. */
  subscribe(sourceId: string, onNews: () => void): FeedSubscription;
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
  /** Tells each reader that there is news. */
  readonly readers: Set<() => void>;
}

/** Looks for changes once per process and source, however many read them. */
export function makeChangeHub(deps: { pool: Pool; clock: Clock; logger: Logger }): ChangeHub {
  const { pool, clock, logger } = deps;
  const tails = new Map<string, SharedTail>();
  let closed = false;
  const look = makeLook({ tails, clock, logger });
  look.start();

  async function read(sourceId: string, after: FeedCursor): Promise<FeedBatch> {
    try {
      return await readFeed(pool, { sourceId, after, limit: SECTION_LIMIT });
    } catch (error) {
      if (error instanceof UnavailableError) return NOTHING;
      throw error;
    }
  }

  return {
    subscribe(sourceId, onNews) {
      const shared = tails.get(sourceId) ?? { tail: makeFeedTail({ pool, sourceId }), readers: new Set() };
      tails.set(sourceId, shared);
      shared.readers.add(onNews);
      if (shared.readers.size === 1) look.wake();
      return {
        take: (after) => shared.tail.take(after, SECTION_LIMIT),
        read: (after) => read(sourceId, after),
        close() {
          shared.readers.delete(onNews);
          if (shared.readers.size === 0 && tails.get(sourceId) === shared) tails.delete(sourceId);
        },
      };
    },
    look: look.wake,
    isClosed: () => closed,
    async close() {
      closed = true;
      for (const shared of tails.values()) tellReaders(shared);
      await look.stop();
    },
  };
}

function tellReaders({ readers }: SharedTail): void {
  for (const onNews of readers) onNews();
}

/** Looks again and again while there are readers; `wake` says that there are, or that changes were announced. */
function makeLook({ tails, clock, logger }: LookDeps): Loop {
  let failed = false;
  return makeLoop({
    async run() {
      if (tails.size === 0) return Infinity;
      const looks = [...tails.values()].map(async (shared) => {
        // After a failure all look again now: their own reads may have failed, too.
        if ((await shared.tail.look()) || failed) tellReaders(shared);
      });
      await Promise.all(looks);
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
