import { setImmediate as nextTurn } from "node:timers/promises";
import {
  readChanges,
  readFeedEnd,
  readFeedFence,
  beginFeedEpoch,
  type Completeness,
  type FeedCursor,
  type WrittenCursor,
} from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import { writeChange, writeFeedCursor } from "../changes/changeJson.ts";
import { RefusedRequestError } from "../wire/refusal.ts";

/** Changes written in one turn of the event loop: about two milliseconds, for which events wait. */
const FEED_SLICE = 20;

const FEED_RESTARTED = {
  status: 410,
  code: "feed_restarted",
  message:
    "Changes after this position can no longer be read completely. Take the position of after=latest, read the orders again, and continue from there.",
};

/** A change, ready to be sent. */
export interface FeedEntry {
  /** The position behind the change, as text. */
  readonly cursor: string;
  /** The change as JSON; see writeChange. */
  readonly text: string;
}

export interface FeedSection {
  /** The position after which the entries begin: the requested one, or an earlier one that the current server has. */
  readonly start: WrittenCursor;
  readonly entries: readonly FeedEntry[];
  /** Behind the last entry, or `start`. */
  readonly next: WrittenCursor;
  readonly hasMore: boolean;
  /** The completeness at `next`; see FeedPage. */
  readonly complete: Completeness | null;
}

/**
 * The next changes of a source after `after`, at most `limit`, fewer if they are large. `latest`: after the last change
 * that can be read now.
 *
 * A reader of a lost server continues after the last change that the current one took over. Throws RefusedRequestError
 * 410 feed_restarted if that cannot be determined, if retention removed later changes, or if the position is beyond the
 * end of the feed: continuing would miss changes. Rejects with the error of the database.
 */
export async function readFeed(
  pool: Pool,
  query: { sourceId: string; after: FeedCursor | "latest"; limit: number },
): Promise<FeedSection> {
  const { sourceId, limit } = query;
  const after = query.after === "latest" ? await readFeedTail(pool, sourceId) : query.after;
  const read = async () => readChanges(pool, { sourceId, after, limit, fence: await readFeedFence(pool) });
  let page = await read();
  if (!page.current) {
    await beginFeedEpoch(pool);
    page = await read();
  }
  const { epoch, place, changes, hasMore, complete } = page;
  if (place === null) throw new RefusedRequestError(FEED_RESTARTED);
  const start = { epoch, position: place, digest: place === after.position ? after.digest : "" };
  let next = start;
  const entries: FeedEntry[] = [];
  for (const change of changes) {
    next = { epoch, position: change.position, digest: change.digest };
    entries.push({ cursor: writeFeedCursor(next), text: writeChange(change, epoch) });
    if (entries.length % FEED_SLICE === 0) await nextTurn();
  }
  return { start, entries, next, hasMore, complete };
}

/** The cursor behind the last change that can be read now. */
async function readFeedTail(pool: Pool, sourceId: string): Promise<WrittenCursor> {
  await beginFeedEpoch(pool);
  return readFeedEnd(pool, { sourceId, fence: await readFeedFence(pool) });
}
