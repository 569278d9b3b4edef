import type { Completeness, FeedCursor, WrittenCursor } from "./changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import { RefusedRequestError } from "../wire/refusal.ts";
import { readFeed, readFeedTail } from "./feedReader.ts";
import type { FeedEntry, FeedSection } from "./feedReader.ts";

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
