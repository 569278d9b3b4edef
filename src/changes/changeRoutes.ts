import type { Pool } from "../database/database.ts";
import type { Authenticate } from "../http/authenticate.ts";
import { parseFeedQuery } from "./changeQuery.ts";
import type { FeedQuery } from "./changeQuery.ts";
import { showCompleteness } from "./changeJson.ts";
import { writeFeedCursor } from "./feedCursor.ts";
import type { FeedCursor } from "./changeFeed.sql.ts";
import { readFeed, readFeedTail } from "./feedReader.ts";
import { readTarget } from "../wire/endpoints.ts";
import { sendJson } from "../http/respond.ts";
import type { Route } from "../http/route.ts";

/**
 * GET /v1/changes: the changes after a position, oldest first; those of each order are in sequence.
 *
 * `after` is a position from an answer, `latest`, or absent for the beginning. `next` continues from the end of the
 * answer, even if it is empty. `complete` says up to when every change is at `next` or before it. 410 feed_restarted if the position is not valid.
 */
export function makeListChanges(deps: { pool: Pool; authenticate: Authenticate }): Route {
  const { pool, authenticate } = deps;
  return async (request, response) => {
    const sourceId = authenticate(request);
    const { after, limit } = parseFeedQuery(readTarget(request.url).query);
    const section = await readFeed(pool, {
      sourceId,
      after: await findStart(pool, { sourceId, after }),
      limit,
    });
    const next = writeFeedCursor(section.next);
    const data = section.entries.map(({ text }) => text).join(",");
    const complete = JSON.stringify(section.complete && showCompleteness(section.complete));
    sendJson(
      response,
      `{"data":[${data}],"hasMore":${section.hasMore},"next":${JSON.stringify(next)},"complete":${complete}}`,
    );
  };
}

/** The cursor after which the query starts. */
export function findStart(
  pool: Pool,
  { sourceId, after }: { sourceId: string; after: FeedQuery["after"] },
): Promise<FeedCursor> | FeedCursor {
  return after === "latest" ? readFeedTail(pool, sourceId) : after;
}
