import PQueue from "p-queue";
import type { ServerResponse } from "node:http";
import type { Pool } from "../database/database.ts";
import type { Authenticate } from "../http/authenticate.ts";
import { showCompleteness, writeFeedCursor, readFeedCursor } from "./changeJson.ts";
import { FEED_SLICE, readFeed, readFeedTail } from "./feedReader.ts";
import { readTarget } from "../wire/endpoints.ts";
import { sendJsonParts, type Route, type RoutedRequest } from "../http/respond.ts";
import { z } from "zod";
import { refuseParameter } from "../wire/refusal.ts";
import { FEED_BEGINNING, type FeedCursor } from "./changeFeed.sql.ts";
import { parseParameters, wholeNumber } from "../wire/listParameters.ts";

const LIMIT_MAX = 500;
const LIMIT_DEFAULT = 100;

export const feedParametersSchema = z.object({
  after: z
    .string({ error: "given once" })
    .optional()
    .describe("A position from an answer, or latest; without it the beginning."),
  limit: wholeNumber({ min: 1, max: LIMIT_MAX })
    .default(LIMIT_DEFAULT)
    .describe(`Changes per answer. Default ${LIMIT_DEFAULT}.`),
});

export interface FeedQuery {
  /** `latest`: after the last existing change. */
  readonly after: FeedCursor | "latest";
  readonly limit: number;
}

/**
 * The parameters of GET /v1/changes and /v1/changes/stream. `lastEventId` is the header with which an SSE client
 * resumes; it overrides `after`, which stays in the address when a client reconnects. Throws RefusedRequestError, 422
 * invalid_request.
 */
export function parseFeedQuery(parameters: URLSearchParams, lastEventId?: string): FeedQuery {
  const { after, limit } = parseParameters(feedParametersSchema, parameters);
  const text = lastEventId ?? after;
  if (text === undefined || text === "") return { after: FEED_BEGINNING, limit };
  if (text === "latest") return { after: "latest", limit };
  const cursor = readFeedCursor(text);
  if (cursor === undefined) {
    const name = lastEventId === undefined ? "after" : "Last-Event-ID";
    throw refuseParameter(`${name} must be a position from an answer, or latest.`);
  }
  return { after: cursor, limit };
}

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
