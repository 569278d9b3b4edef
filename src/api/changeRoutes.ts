import { once } from "node:events";
import type { ServerResponse } from "node:http";
import PQueue from "p-queue";
import { z } from "zod";
import { OrderMirrorError } from "../domain/errors.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import type { Authenticate, Caller } from "./authenticate.ts";
import type { News } from "./news.ts";
import {
  isUnavailable,
  sendJsonParts,
  setHeaders,
  untilClosed,
  whenClosed,
  type Route,
  type RoutedRequest,
} from "./respond.ts";
import { makeShares, type Shares } from "./shares.ts";
import { readTarget } from "../wire/endpoints.ts";
import { wholeNumber } from "../wire/listParameters.ts";
import { refuseParameter } from "../wire/refusal.ts";
import {
  FEED_BEGINNING,
  type Completeness,
  type FeedCursor,
  type WrittenCursor,
} from "../changes/changeFeed.sql.ts";
import { showCompleteness, writeFeedCursor, readFeedCursor } from "../changes/changeJson.ts";
import { parseQuery } from "./parseQuery.ts";
import { readFeed, type FeedEntry, type FeedSection } from "./feedReader.ts";

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

/** The parameters of a stream: it ends when its client goes. */
export const streamParametersSchema = feedParametersSchema.omit({ limit: true });

/**
 * Reads where a reader begins. `lastEventId` is the header with which an SSE client resumes; it overrides `after`,
 * which stays in the address when a client reconnects. Throws RefusedRequestError, 422 invalid_request.
 */
function readPlace(after: string | undefined, lastEventId?: string): FeedCursor | "latest" {
  const text = lastEventId ?? after;
  if (text === undefined || text === "") return FEED_BEGINNING;
  if (text === "latest") return "latest";
  const cursor = readFeedCursor(text);
  if (cursor !== undefined) return cursor;
  const name = lastEventId === undefined ? "after" : "Last-Event-ID";
  throw refuseParameter(`${name} must be a position from an answer, or latest.`);
}

/**
 * Two answers: the second is read while the first is written. An answer can have megabytes, and delays
 * acknowledgements.
 */
const ANSWERS_AT_ONCE = 2;

/**
 * GET /v1/changes: the changes after a position, oldest first; those of each order are in sequence.
 *
 * `after` is a position from an answer, `latest`, or absent for the beginning. `next` continues from the end of the
 * answer, even if it is empty. `complete` says up to when every change is at `next` or before it. 410 feed_restarted if
 * the position is not valid.
 */
export function makeListChanges(deps: { pool: Pool; authenticate: Authenticate; unread: Shares }): Route {
  const { pool, authenticate, unread } = deps;
  const turns = new PQueue({ concurrency: ANSWERS_AT_ONCE });

  async function answer(request: RoutedRequest, response: ServerResponse, caller: Caller): Promise<void> {
    const { sourceId, client } = caller;
    const { limit, ...query } = parseQuery(feedParametersSchema, readTarget(request.url).query);
    const after = readPlace(query.after);
    const { entries, hasMore, ...section } = await readFeed(pool, { sourceId, after, limit });
    const next = JSON.stringify(writeFeedCursor(section.next));
    const complete = JSON.stringify(section.complete && showCompleteness(section.complete));
    const data = entries.map(({ text }, index) => (index === 0 ? text : `,${text}`));
    const end = `],"hasMore":${hasMore},"next":${next},"complete":${complete}}`;
    await sendJsonParts(response, ['{"data":[', ...data, end], { unread, client });
  }

  return async (request, response) => {
    const caller = authenticate(request);
    unread.assertFree(caller.client);
    await turns.add(async () => {
      // Who has gone meanwhile needs no answer.
      if (!response.destroyed) await answer(request, response, caller);
    });
  };
}

const SECTION_LIMIT = 100;
const HEARTBEAT_MS = 15_000;
const HEARTBEAT = ": heartbeat\n\n";
/** A client that accepts no bytes for this long is disconnected. It resumes where it left off. */
const STALLED_MS = 30_000;
const RECONNECT_MS = 3_000;

const STREAM_HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  // A proxy that compresses or buffers would hold events back.
  "Cache-Control": "no-cache, no-transform",
  "X-Accel-Buffering": "no",
};

export interface StreamDeps {
  readonly pool: Pool;
  readonly news: News;
  readonly authenticate: Authenticate;
  readonly logger: Logger;
  /** For tests, which do not wait for the product's spans. */
  readonly limits?:
    | { readonly streamsMax?: number; readonly heartbeatMs?: number; readonly stalledMs?: number }
    | undefined;
}

/**
 * GET /v1/changes/stream: the change feed as server-sent events, `event: change`, `id` being the position. An
 * `event: complete` says up to when every change is at its position or before it.
 *
 * A client resumes by `Last-Event-ID`, or starts by `after`. At most one section of changes is on its way to a client
 * at a time, so a slow one costs no memory; one that takes nothing for 30 s is let go. 503 too_many_streams beyond
 * the cap.
 */
export function makeStreamChanges(deps: StreamDeps): Route {
  const { pool, authenticate, limits = {} } = deps;
  const read = makeSharedRead(deps);
  const streams = makeShares("streams", limits.streamsMax);
  return async (request, response) => {
    const { sourceId, client } = authenticate(request);
    const lastEventId = request.headers["last-event-id"]?.toString();
    const query = parseQuery(streamParametersSchema, readTarget(request.url).query);
    const after = readPlace(query.after, lastEventId);
    // Refuses a position that does not hold while the status can still say so.
    const { start } = await readFeed(pool, { sourceId, after, limit: 1 });
    if (response.destroyed) return;
    whenClosed(response, streams.take(client));
    setHeaders(response, STREAM_HEADERS);
    if (request.method === "HEAD") response.end();
    else await runStream(deps, { sourceId, start, read, response });
  };
}

interface Section extends Pick<FeedSection, "next" | "hasMore" | "complete"> {
  /** Its changes as events. */
  readonly bytes: Buffer;
}

type SharedRead = (sourceId: string, after: WrittenCursor) => Promise<Section>;

/**
 * Readers that are equally far share one read and its bytes, so a change costs one read however many follow. One that
 * began before the last news may miss what was announced, and is not shared any more.
 */
function makeSharedRead({ pool, news }: StreamDeps): SharedRead {
  let underWay = new Map<string, Promise<Section>>();
  let since = news.next();

  async function read(sourceId: string, after: WrittenCursor): Promise<Section> {
    const { entries, ...section } = await readFeed(pool, { sourceId, after, limit: SECTION_LIMIT });
    return { ...section, bytes: Buffer.from(entries.map(writeFrame).join("")) };
  }
  return (sourceId, after) => {
    if (since !== news.next()) [since, underWay] = [news.next(), new Map()];
    const reads = underWay;
    const key = `${sourceId} ${writeFeedCursor(after)}`;
    const begun = reads.get(key) ?? read(sourceId, after).finally(() => reads.delete(key));
    reads.set(key, begun);
    return begun;
  };
}

/** Writes to one client until it is gone or the process closes. */
async function runStream(
  { news, logger, limits = {} }: StreamDeps,
  stream: { sourceId: string; start: WrittenCursor; read: SharedRead; response: ServerResponse },
): Promise<void> {
  const { sourceId, start, read, response } = stream;
  const gone = untilClosed(response);
  const heartbeat = setInterval(() => response.write(HEARTBEAT), limits.heartbeatMs ?? HEARTBEAT_MS);
  response.setTimeout(limits.stalledMs ?? STALLED_MS, () => {
    if (!response.writableNeedDrain) return;
    logger.info({ source: sourceId }, "a stream of changes was ended: its client took nothing for too long");
    response.destroy();
  });
  let after = start;
  let through: Instant | undefined;
  try {
    // An id alone is no event, but the client keeps it: it resumes here though nothing may have come yet.
    response.write(`retry: ${RECONNECT_MS}\nid: ${writeFeedCursor(start)}\n\n`);
    while (!gone.aborted && !news.isOver()) {
      const later = news.next();
      const section = await read(sourceId, after).catch((error: unknown) => {
        // While the database is unavailable, the stream looks again later.
        if (!isUnavailable(error)) throw error;
      });
      if (section !== undefined) {
        const { bytes, complete, next } = section;
        after = next;
        if (bytes.length > 0) await write(response, bytes, gone);
        if (complete !== null && complete.through !== through) {
          ({ through } = complete);
          await write(response, frameCompleteness(after, complete), gone);
        }
      }
      if (section?.hasMore !== true) await later;
    }
    response.end();
  } catch (error) {
    if (gone.aborted) return;
    // The client comes back with Last-Event-ID, and then learns from the status what is wrong.
    const expected = error instanceof OrderMirrorError || isUnavailable(error);
    logger[expected ? "info" : "error"]({ err: error, source: sourceId }, "a stream of changes was ended");
    response.destroy();
  } finally {
    clearInterval(heartbeat);
  }
}

/**
 * Resolves when the client has room for more. In one piece and at once: Node keeps the parts of a chunk until the end
 * of the turn, when all readers have theirs.
 */
async function write(response: ServerResponse, chunk: string | Buffer, gone: AbortSignal): Promise<void> {
  gone.throwIfAborted();
  response.socket?.cork();
  const taken = response.write(chunk);
  response.socket?.uncork();
  if (!taken) await once(response, "drain", { signal: gone });
}

/** The lines of an order's text are lines of the event; the client joins them again. */
function writeFrame({ cursor, text }: FeedEntry): string {
  return `id: ${cursor}\nevent: change\ndata: ${text.split(/\r\n|\r|\n/).join("\ndata: ")}\n\n`;
}

function frameCompleteness(place: WrittenCursor, complete: Completeness): string {
  const position = writeFeedCursor(place);
  const record = { position, ...showCompleteness(complete) };
  return `id: ${position}\nevent: complete\ndata: ${JSON.stringify(record)}\n\n`;
}
