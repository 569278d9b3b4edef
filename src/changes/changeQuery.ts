import { z } from "zod";
import { refuseParameter } from "../wire/refusal.ts";
import { FEED_BEGINNING } from "./changeFeed.sql.ts";
import type { FeedCursor } from "./changeFeed.sql.ts";
import { readFeedCursor } from "./feedCursor.ts";
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
