import type { ServerResponse } from "node:http";
import PQueue from "p-queue";
import type { Pool } from "../database/database.ts";
import type { Authenticate } from "../http/authenticate.ts";
import { parseFeedQuery } from "./changeQuery.ts";
import type { FeedQuery } from "./changeQuery.ts";
import { showCompleteness } from "./changeJson.ts";
import { writeFeedCursor } from "./feedCursor.ts";
import type { FeedCursor } from "./changeFeed.sql.ts";
import { FEED_SLICE, readFeed, readFeedTail } from "./feedReader.ts";
import { readTarget } from "../wire/endpoints.ts";
import { sendJsonParts } from "../http/respond.ts";
import type { Route, RoutedRequest } from "../http/route.ts";

/** One is read while another is written: an answer can have megabytes, and events are acknowledged in the same process. */
const ANSWERS_AT_ONCE = 2;

/**
 * GET /v1/changes: the changes after a position, oldest first; those of each order are in sequence.
 *
 * `after` is a position from an answer, `latest`, or absent for the beginning. `next` continues from the end of the
 * answer, even if it is empty. `complete` says up to when every change is at `next` or before it. 410 feed_restarted if the position is not valid.
 */
export function makeListChanges(deps: { pool: Pool; authenticate: Authenticate }): Route {
  const { pool, authenticate } = deps;
  const turns = new PQueue({ concurrency: ANSWERS_AT_ONCE });

  async function answer(request: RoutedRequest, response: ServerResponse, sourceId: string): Promise<void> {
    const { after, limit } = parseFeedQuery(readTarget(request.url).query);
    const start = await findStart(pool, { sourceId, after });
    const { entries, hasMore, ...section } = await readFeed(pool, { sourceId, after: start, limit });
    const next = JSON.stringify(writeFeedCursor(section.next));
    const complete = JSON.stringify(section.complete && showCompleteness(section.complete));
    const parts = ['{"data":['];
    for (let from = 0; from < entries.length; from += FEED_SLICE) {
      const slice = entries.slice(from, from + FEED_SLICE).map(({ text }) => text);
      parts.push((from === 0 ? "" : ",") + slice.join(","));
    }
    await sendJsonParts(response, [
      ...parts,
      `],"hasMore":${hasMore},"next":${next},"complete":${complete}}`,
    ]);
  }

  return async (request, response) => {
    const sourceId = authenticate(request);
    await turns.add(async () => {
      // Who has gone meanwhile needs no answer.
      if (!response.destroyed) await answer(request, response, sourceId);
    });
  };
}

/** The cursor after which the query starts. */
export function findStart(
  pool: Pool,
  { sourceId, after }: { sourceId: string; after: FeedQuery["after"] },
): Promise<FeedCursor> | FeedCursor {
  return after === "latest" ? readFeedTail(pool, sourceId) : after;
}
