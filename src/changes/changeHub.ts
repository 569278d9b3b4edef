import { UnavailableError } from "../domain/errors.ts";
import type { Pool } from "../database/database.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLoop, type Loop } from "../runtime/lifecycle/loop.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { readFeed, readFeedTail, type FeedEntry, type FeedSection } from "./feedReader.ts";
import type { FeedCursor, Completeness, WrittenCursor } from "./changeFeed.sql.ts";
import { RefusedRequestError } from "../wire/refusal.ts";

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

/** Entries cached for readers; a reader that is further behind reads from the database. */
const KEPT_ENTRIES_MAX = 2_000;
const KEPT_LENGTH_MAX = 8_000_000;
const LOOK_LIMIT = 500;

/** Changes for a reader. */
export interface FeedBatch {
  /** Oldest first. */
  readonly entries: readonly FeedEntry[];
  /** What holds behind the last entry; see FeedPage. */
  readonly complete: Completeness | null;
}

/** The end of one source's feed, kept in memory while anyone reads it. */
export interface FeedTail {
  /** Checks for changes and proofs; returns true if there were some. Throws what readFeed throws. */
  look(): Promise<boolean>;
  /** Cached entries after `after`, at most `limit`; undefined if the next one is not cached. */
  take(after: FeedCursor, limit: number): FeedBatch | undefined;
}

/** The entries after `start` are cached, up to `end`. `complete` holds at `end`. */
interface Kept extends FeedBatch {
  readonly start: WrittenCursor;
  readonly end: WrittenCursor;
  /** Characters of all entries. */
  readonly length: number;
}

/** @internal */
export function makeFeedTail({ pool, sourceId }: { pool: Pool; sourceId: string }): FeedTail {
  /** Undefined until the first look, and after the feed has started again. */
  let kept: Kept | undefined;

  async function look(): Promise<boolean> {
    if (kept === undefined) {
      const end = await readFeedTail(pool, sourceId);
      kept = { start: end, end, entries: [], length: 0, complete: null };
      return true;
    }
    try {
      const section = await readFeed(pool, { sourceId, after: kept.end, limit: LOOK_LIMIT });
      const { start, entries } = section;
      // On another server what was kept may be lost.
      if (start.epoch !== kept.end.epoch)
        kept = { start, end: start, entries: [], length: 0, complete: null };
      const isProof = section.complete !== null && section.complete.through !== kept.complete?.through;
      if (entries.length === 0 && !isProof) return false;
      kept = keep(kept, section);
    } catch (error) {
      // Readers find out when they read.
      if (!(error instanceof RefusedRequestError)) throw error;
      kept = undefined;
    }
    return true;
  }

  return {
    look,
    take(after, limit) {
      if (kept === undefined || kept.start.epoch !== after.epoch) return undefined;
      if (after.position < kept.start.position) return undefined;
      // Ahead of the last look; or its change is gone, which only a read of the reader's own finds out.
      if (after.position > kept.end.position) return undefined;
      const first = kept.entries.findLastIndex(({ place }) => place.position <= after.position) + 1;
      const isEnd = first + limit >= kept.entries.length;
      return { entries: kept.entries.slice(first, first + limit), complete: isEnd ? kept.complete : null };
    },
  };
}

function keep(kept: Kept, { entries: added, next: end, complete }: FeedSection): Kept {
  const { start, entries, length } = kept;
  const all = [...entries, ...added];
  let total = added.reduce((sum, { text }) => sum + text.length, length);
  let dropped = 0;
  for (const { text } of all) {
    if (all.length - dropped <= KEPT_ENTRIES_MAX && total <= KEPT_LENGTH_MAX) break;
    total -= text.length;
    dropped += 1;
  }
  const last = all[dropped - 1];
  return {
    start: last === undefined ? start : last.place,
    end,
    entries: all.slice(dropped),
    length: total,
    // While another writer holds up what the next one needs, the last one still holds.
    complete: complete ?? kept.complete,
  };
}
