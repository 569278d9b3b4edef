import { readChanges, readFeedEnd } from "./changeFeed.sql.ts";
import type { Change, FeedPosition } from "./changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import { settleFeed } from "./feedEpoch.sql.ts";
import { writeChange } from "./changeJson.ts";
import { RefusedRequestError } from "../http/errors.ts";
import { FEED_BEGINNING, writeFeedCursor } from "./feedCursor.ts";
import type { FeedCursor } from "./feedCursor.ts";
import { readOrUnavailable } from "../http/respond.ts";

/** A change, ready to be sent. */
export interface FeedEntry {
  readonly at: FeedPosition;
  /** The cursor behind it. */
  readonly cursor: string;
  readonly change: Change;
  /** The change as JSON; see writeChange. */
  readonly text: string;
}

export interface FeedSection {
  readonly epoch: string;
  readonly entries: readonly FeedEntry[];
  /** The cursor behind the last entry, or the one that was asked with. */
  readonly next: FeedCursor;
  readonly hasMore: boolean;
}

/**
 * The next changes of a source behind `after`, at most `limit`, fewer when they are large.
 *
 * Throws RefusedRequestError 410 feed_restarted when the cursor is of another epoch, or when changes behind it were
 * removed by retention: to go on would miss changes. Throws UnavailableError when the database is away.
 */
export async function readFeed(
  pool: Pool,
  query: { sourceId: string; after: FeedCursor; limit: number },
): Promise<FeedSection> {
  const { sourceId, after, limit } = query;
  const read = () => readOrUnavailable(readChanges(pool, { sourceId, after: after.at, limit }));
  let page = await read();
  if (!page.settled) {
    await readOrUnavailable(settleFeed(pool));
    page = await read();
  }
  if (after.epoch !== null && (after.epoch !== page.epoch || page.incomplete)) throw refuseCursor();
  const entries = page.changes.map((change): FeedEntry => {
    const cursor = writeFeedCursor(page.epoch, change.at);
    return { at: change.at, cursor, change, text: writeChange(change, cursor) };
  });
  const next = { epoch: page.epoch, at: entries.at(-1)?.at ?? after.at };
  return { epoch: page.epoch, entries, next, hasMore: page.hasMore };
}

/** The cursor behind the last change that can be read now. */
export async function readFeedTail(pool: Pool, sourceId: string): Promise<FeedCursor> {
  // First the epoch: were the database restored in between, the position would be refused and not misread.
  const { epoch } = await readFeed(pool, { sourceId, after: FEED_BEGINNING, limit: 1 });
  return { epoch, at: await readOrUnavailable(readFeedEnd(pool, sourceId)) };
}

function refuseCursor(): RefusedRequestError {
  return new RefusedRequestError({
    status: 410,
    code: "feed_restarted",
    message:
      "Changes behind this position can no longer be read whole. Take the position of after=latest, read the orders again, and go on from there.",
  });
}
