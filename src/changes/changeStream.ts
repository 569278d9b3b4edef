import type { IncomingMessage, ServerResponse } from "node:http";
import { OrderMirrorError } from "../domain/errors.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { callerOf } from "../http/authenticate.ts";
import type { Authenticate } from "../http/authenticate.ts";
import type { ChangeHub } from "./changeHub.ts";
import { parseFeedQuery } from "./changeQuery.ts";
import { findStart } from "./changeRoutes.ts";
import { RefusedRequestError } from "../wire/refusal.ts";
import { writeFeedCursor } from "./feedCursor.ts";
import type { Completeness, WrittenCursor } from "./changeFeed.sql.ts";
import { showCompleteness } from "./changeJson.ts";
import { readFeed } from "./feedReader.ts";
import type { FeedEntry } from "./feedReader.ts";
import { readTarget } from "../wire/endpoints.ts";
import { setHeaders } from "../http/route.ts";
import type { Route } from "../http/route.ts";

/** Streams per process; each costs a socket and its unsent content. */
const STREAMS_MAX = 200;
/** Per token if there are several, so that none can occupy all streams. */
const STREAMS_PER_TOKEN_MAX = STREAMS_MAX / 2;
const HEARTBEAT_MS = 15_000;
const HEARTBEAT = Buffer.from(": heartbeat\n\n");
/** A client that accepts no bytes for this long is disconnected. It resumes where it left off. */
const STALLED_MS = 30_000;
const RECONNECT_MS = 3_000;
const BUSY_RETRY_SECONDS = 30;

const STREAM_HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  // A proxy that compresses or buffers would hold events back.
  "Cache-Control": "no-cache, no-transform",
  "X-Accel-Buffering": "no",
};

export interface StreamDeps {
  readonly pool: Pool;
  readonly hub: ChangeHub;
  readonly authenticate: Authenticate;
  /** How many may read. */
  readonly apiTokens?: readonly unknown[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests, which do not wait for the product's spans. */
  readonly limits?: {
    readonly streamsMax?: number;
    readonly streamsPerTokenMax?: number;
    readonly heartbeatMs?: number;
    readonly stalledMs?: number;
  };
}

/**
 * GET /v1/changes/stream: the change feed as server-sent events, `event: change`, `id` being the position. An
 * `event: complete` says up to when every change is at its position or before it.
 *
 * A client resumes by `Last-Event-ID`, or starts by `after`. At most one section of changes is on its way to a client
 * at a time, so a slow one costs no memory; one that takes nothing for 30 s is let go. 503 too_many_streams beyond
 * the cap, 429 too_many_streams beyond that of a token.
 */
export function makeStreamChanges(deps: StreamDeps): Route {
  const { pool, authenticate, limits = {} } = deps;
  const ownMax = (deps.apiTokens?.length ?? 0) > 1 ? STREAMS_PER_TOKEN_MAX : STREAMS_MAX;
  const { streamsMax = STREAMS_MAX, streamsPerTokenMax = ownMax } = limits;
  const open = new Map<string, number>();
  return async (request, response) => {
    const sourceId = authenticate(request);
    const { after } = parseFeedQuery(readTarget(request.url).query, readLastEventId(request));
    const from = await findStart(pool, { sourceId, after });
    // Refuses a position that does not hold while the status can still say so.
    const { start } = await readFeed(pool, { sourceId, after: from, limit: 1 });
    const caller = callerOf(request);
    const own = open.get(caller) ?? 0;
    if (caller !== "" && own >= streamsPerTokenMax)
      throw refuseStream(429, "This token has too many streams open.");
    if (sum(open.values()) >= streamsMax) throw refuseStream(503, "Too many streams are open.");
    open.set(caller, own + 1);
    try {
      setHeaders(response, STREAM_HEADERS);
      if (request.method === "HEAD") response.end();
      else await runStream(deps, { sourceId, start, response });
    } finally {
      const left = (open.get(caller) ?? 1) - 1;
      if (left === 0) open.delete(caller);
      else open.set(caller, left);
    }
  };
}

async function runStream(
  deps: StreamDeps,
  { sourceId, start, response }: { sourceId: string; start: WrittenCursor; response: ServerResponse },
): Promise<void> {
  const { hub, logger, limits = {} } = deps;
  const gone = new AbortController();
  response.on("close", () => gone.abort(new Error("the client is gone")));
  const waitMs = limits.heartbeatMs ?? HEARTBEAT_MS;
  const subscription = hub.subscribe(sourceId, { waitMs, signal: gone.signal });
  // An id alone is no event, but the client keeps it: it resumes here though nothing may have come yet.
  let chunk: string | Buffer = `retry: ${RECONNECT_MS}\nid: ${writeFeedCursor(start)}\n\n`;
  let after: WrittenCursor = start;
  let completeThrough: Instant | undefined;
  try {
    for (;;) {
      await writeChunk(deps, { response, chunk, signal: gone.signal });
      const { entries, complete } = await subscription.next(after, completeThrough);
      if (hub.isClosed()) break;
      after = entries.at(-1)?.place ?? after;
      const written = entries.map(frameOf);
      if (complete !== null && complete.through !== completeThrough) {
        written.push(Buffer.from(frameCompleteness(after, complete)));
        completeThrough = complete.through;
      }
      chunk = join(written);
    }
    response.end();
  } catch (error) {
    // The client comes back with Last-Event-ID, and then learns from the status what is wrong.
    if (!gone.signal.aborted) logStop(logger, sourceId, error);
    response.destroy();
  } finally {
    subscription.close();
  }
}

/** Writes, and waits until the client has taken it as far as the socket's buffer goes. */
async function writeChunk(
  { clock, limits = {} }: StreamDeps,
  { response, chunk, signal }: { response: ServerResponse; chunk: string | Buffer; signal: AbortSignal },
): Promise<void> {
  signal.throwIfAborted();
  if (response.write(chunk)) return;
  const over = new AbortController();
  try {
    await new Promise<void>((resolve, reject) => {
      response.once("drain", resolve);
      signal.addEventListener("abort", () => reject(signal.reason as Error), { signal: over.signal });
      const stalled = clock.sleep(limits.stalledMs ?? STALLED_MS, over.signal);
      stalled.then(
        () => reject(new StalledClientError("a client took no changes for too long")),
        () => undefined,
      );
    });
  } finally {
    over.abort();
  }
}

/** A client of the stream that does not read; it is let go. */
class StalledClientError extends OrderMirrorError {
  override readonly name = "StalledClientError";
  override readonly retry = "never";
}

/** All readers share the entries that the hub keeps, so each frame is written, and encoded, once. */
const frames = new WeakMap<FeedEntry, Buffer>();

function frameOf(entry: FeedEntry): Buffer {
  const known = frames.get(entry);
  if (known !== undefined) return known;
  const frame = Buffer.from(writeFrame(entry));
  frames.set(entry, frame);
  return frame;
}

function join(written: readonly Buffer[]): Buffer {
  const [first = HEARTBEAT, ...rest] = written;
  return rest.length === 0 ? first : Buffer.concat(written);
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

function readLastEventId(request: IncomingMessage): string | undefined {
  const value = request.headers["last-event-id"];
  return Array.isArray(value) ? value.join(",") : value;
}

function logStop(logger: Logger, source: string, error: unknown): void {
  const expected = error instanceof OrderMirrorError;
  logger[expected ? "info" : "error"]({ err: error, source }, "a stream of changes was ended");
}

function refuseStream(status: 429 | 503, message: string): RefusedRequestError {
  const headers = { "Retry-After": String(BUSY_RETRY_SECONDS) };
  return new RefusedRequestError({ status, code: "too_many_streams", message, headers });
}

function sum(counts: Iterable<number>): number {
  return [...counts].reduce((total, count) => total + count, 0);
}
