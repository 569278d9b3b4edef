import type { IncomingMessage, ServerResponse } from "node:http";
import { OrderMirrorError } from "../domain/errors.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import type { Authenticate } from "../http/authenticate.ts";
import type { ChangeHub, FeedBatch } from "./changeHub.ts";
import { parseFeedQuery, findStart } from "./changeRoutes.ts";
import { RefusedRequestError } from "../wire/refusal.ts";
import { writeFeedCursor, showCompleteness } from "./changeJson.ts";
import type { Completeness, WrittenCursor } from "./changeFeed.sql.ts";
import { readFeed, type FeedEntry } from "./feedReader.ts";
import { readTarget } from "../wire/endpoints.ts";
import { setHeaders, type Route } from "../http/respond.ts";

/** Streams per process; each costs a socket and its unsent content. */
const STREAMS_MAX = 200;
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
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests, which do not wait for the product's spans. */
  readonly limits?: {
    readonly streamsMax?: number;
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
 * the cap.
 */
export function makeStreamChanges(deps: StreamDeps): Route {
  const { pool, authenticate, limits = {} } = deps;
  const { streamsMax = STREAMS_MAX } = limits;
  let open = 0;
  return async (request, response) => {
    const sourceId = authenticate(request);
    const { after } = parseFeedQuery(readTarget(request.url).query, readLastEventId(request));
    const from = await findStart(pool, { sourceId, after });
    // Refuses a position that does not hold while the status can still say so.
    const { start } = await readFeed(pool, { sourceId, after: from, limit: 1 });
    if (open >= streamsMax) throw refuseStream();
    open += 1;
    try {
      setHeaders(response, STREAM_HEADERS);
      if (request.method === "HEAD") response.end();
      else await runStream(deps, { sourceId, start, response });
    } finally {
      open -= 1;
    }
  };
}

/**
 * Writes to one client until it is gone or the hub is closed; resolves then. It is written to within the call that says
 * that there is news: with a promise for each of 200 readers, the first waited for the steps of all others.
 */
async function runStream(
  deps: StreamDeps,
  { sourceId, start, response }: { sourceId: string; start: WrittenCursor; response: ServerResponse },
): Promise<void> {
  if (response.destroyed) return;
  const { hub, limits = {} } = deps;
  const gone = new AbortController();
  const framing = makeFraming(start);
  let hasNews = true;
  /** The client or the database has to answer first. */
  let isWaiting = false;
  const subscription = hub.subscribe(sourceId, () => {
    hasNews = true;
    send();
  });
  const heartbeat = setTimeout(() => {
    if (isWaiting) heartbeat.refresh();
    else write(HEARTBEAT);
  }, limits.heartbeatMs ?? HEARTBEAT_MS);

  function send(): void {
    while (hasNews && !isWaiting && !hub.isClosed()) {
      hasNews = false;
      const batch = subscription.take(framing.after());
      if (batch === undefined) waitFor(subscription.read(framing.after()), give);
      else give(batch);
    }
    if (!hub.isClosed() || isWaiting) return;
    clearTimeout(heartbeat);
    response.end();
  }

  function give(batch: FeedBatch): void {
    // More may follow them.
    hasNews ||= batch.entries.length > 0;
    const chunk = framing.frame(batch);
    if (chunk !== undefined) write(chunk);
  }

  function write(chunk: string | Buffer): void {
    heartbeat.refresh();
    if (!writeNow(response, chunk)) waitFor(untilTaken(deps, { response, signal: gone.signal }));
  }

  function waitFor<Answer>(answer: Promise<Answer>, use: (answer: Answer) => void = () => undefined): void {
    isWaiting = true;
    const proceed = (given: Answer) => {
      isWaiting = false;
      if (gone.signal.aborted) return;
      use(given);
      send();
    };
    answer.then(proceed).catch((error: unknown) => {
      // The client comes back with Last-Event-ID, and then learns from the status what is wrong.
      if (!gone.signal.aborted) logStop(deps.logger, sourceId, error);
      response.destroy();
    });
  }

  // An id alone is no event, but the client keeps it: it resumes here though nothing may have come yet.
  write(`retry: ${RECONNECT_MS}\nid: ${writeFeedCursor(start)}\n\n`);
  send();
  await new Promise((resolve) => response.once("close", resolve));
  gone.abort(new Error("the client is gone"));
  clearTimeout(heartbeat);
  subscription.close();
}

/** Turns the batches of one reader into bytes, from `start` on. */
function makeFraming(start: WrittenCursor) {
  let after = start;
  let completeThrough: Instant | undefined;
  return {
    /** Behind everything that was framed. */
    after: () => after,
    /** Undefined if the batch says nothing new. */
    frame({ entries, complete }: FeedBatch): Buffer | undefined {
      after = entries.at(-1)?.place ?? after;
      const frames = entries.map(frameOf);
      if (complete !== null && complete.through !== completeThrough) {
        frames.push(frameCompleteness(after, complete));
        completeThrough = complete.through;
      }
      return frames.length > 1 ? Buffer.concat(frames) : frames[0];
    },
  };
}

/** In one piece and at once: Node keeps the parts of a chunk until the end of the turn, when all readers have theirs. */
function writeNow(response: ServerResponse, chunk: string | Buffer): boolean {
  response.socket?.cork();
  const taken = response.write(chunk);
  response.socket?.uncork();
  return taken;
}

/** Resolves when the client has taken what was written, as far as the socket's buffer goes. */
async function untilTaken(
  { clock, limits = {} }: StreamDeps,
  { response, signal }: { response: ServerResponse; signal: AbortSignal },
): Promise<void> {
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
const framesOf = new WeakMap<FeedEntry, Buffer>();

function frameOf(entry: FeedEntry): Buffer {
  const known = framesOf.get(entry);
  if (known !== undefined) return known;
  const frame = Buffer.from(writeFrame(entry));
  framesOf.set(entry, frame);
  return frame;
}

/** The lines of an order's text are lines of the event; the client joins them again. */
function writeFrame({ cursor, text }: FeedEntry): string {
  return `id: ${cursor}\nevent: change\ndata: ${text.split(/\r\n|\r|\n/).join("\ndata: ")}\n\n`;
}

function frameCompleteness(place: WrittenCursor, complete: Completeness): Buffer {
  const position = writeFeedCursor(place);
  const record = { position, ...showCompleteness(complete) };
  return Buffer.from(`id: ${position}\nevent: complete\ndata: ${JSON.stringify(record)}\n\n`);
}

function readLastEventId(request: IncomingMessage): string | undefined {
  const value = request.headers["last-event-id"];
  return Array.isArray(value) ? value.join(",") : value;
}

function logStop(logger: Logger, source: string, error: unknown): void {
  const expected = error instanceof OrderMirrorError;
  logger[expected ? "info" : "error"]({ err: error, source }, "a stream of changes was ended");
}

function refuseStream(): RefusedRequestError {
  const headers = { "Retry-After": String(BUSY_RETRY_SECONDS) };
  const message = "Too many streams are open.";
  return new RefusedRequestError({ status: 503, code: "too_many_streams", message, headers });
}
