import { compareFeedPositions } from "./changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import { RefusedRequestError } from "../http/errors.ts";
import { readFeed, readFeedTail } from "./feedReader.ts";
import type { FeedEntry } from "./feedReader.ts";
import type { FeedCursor } from "./feedCursor.ts";
import { makeNews } from "./news.ts";
import type { News } from "./news.ts";

/** Entries that are kept for readers; one that is further behind reads for itself. */
const KEPT_ENTRIES_MAX = 2_000;
const KEPT_LENGTH_MAX = 8_000_000;
const LOOK_LIMIT = 500;

/** The end of one source's feed, kept in memory while anyone reads it. */
export interface FeedTail {
  /** Looks for changes and tells who waits; returns true when there were some. Throws what readFeed throws. */
  look(): Promise<boolean>;
  /** Kept entries behind `after`, oldest first, at most `limit`; undefined when what comes next is not kept. */
  take(after: FeedCursor, limit: number): readonly FeedEntry[] | undefined;
  readonly news: News;
}

/** What comes behind `start` is kept, up to `end`. */
interface Kept {
  readonly start: FeedCursor;
  readonly end: FeedCursor;
  readonly entries: readonly FeedEntry[];
  /** Characters of all entries. */
  readonly length: number;
}

export function makeFeedTail({ pool, sourceId }: { pool: Pool; sourceId: string }): FeedTail {
  const news = makeNews();
  /** Undefined until the first look, and after the feed has begun anew. */
  let kept: Kept | undefined;

  async function look(): Promise<boolean> {
    if (kept === undefined) {
      const end = await readFeedTail(pool, sourceId);
      kept = { start: end, end, entries: [], length: 0 };
      return true;
    }
    try {
      const { entries, next } = await readFeed(pool, { sourceId, after: kept.end, limit: LOOK_LIMIT });
      if (entries.length === 0) return false;
      kept = keep(kept, entries, next);
    } catch (error) {
      // Another epoch: readers find out by themselves.
      if (!(error instanceof RefusedRequestError)) throw error;
      kept = undefined;
    }
    return true;
  }

  return {
    async look() {
      const found = await look();
      if (found) news.tell();
      return found;
    },
    take(after, limit) {
      if (kept === undefined || kept.start.epoch !== after.epoch) return undefined;
      if (compareFeedPositions(after.at, kept.start.at) < 0) return undefined;
      const first = kept.entries.findLastIndex((entry) => compareFeedPositions(entry.at, after.at) <= 0) + 1;
      return kept.entries.slice(first, first + limit);
    },
    news,
  };
}

function keep({ start, entries, length }: Kept, added: readonly FeedEntry[], end: FeedCursor): Kept {
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
    start: last === undefined ? start : { epoch: end.epoch, at: last.at },
    end,
    entries: all.slice(dropped),
    length: total,
  };
}
