/**
 * The API's answers: JSON with `request_id`, ETags, large answers in slices, and one body for every error.
 *
 * Orders are sent as the provider wrote them, so answers are put together as text. `authenticate.ts` decides who may
 * read and write which source. Start at `sendJson` and `makeErrorAnswer`.
 */
import { hash, randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { OrderMirrorError } from "../domain/errors.ts";
import { classifyDatabaseError, isConnectionLost, sqlState } from "../database/databaseErrors.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { NO_SUCH_ADDRESS, refuseBusy, RefusedRequestError } from "../wire/refusal.ts";
import { rawMember, withoutMember } from "../wire/rawJson.ts";
import type { Shares } from "./shares.ts";

/** A request on its way through a router, which adds what the path says. */
export interface RoutedRequest extends IncomingMessage {
  /** Without the part that the routers before this one have taken. */
  readonly url: string;
  readonly params: Readonly<Record<string, string | string[]>>;
}

/**
 * Answers a route of the read API with what Node offers: Express's own methods of requests and responses are not there,
 * because only an application adds them, and that costs more than reading an order.
 */
export type Route = (request: RoutedRequest, response: ServerResponse) => unknown;

/** Answers a request, or passes it on. */
export type Middleware<Request = IncomingMessage> = (
  request: Request,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => unknown;

/** Sets several headers of an answer. */
export function setHeaders(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const name in headers) response.setHeader(name, headers[name] ?? "");
}

const REQUEST_ID_HEADER = "X-Request-Id";
const REQUEST_ID_DIGITS = 24;
const RETRY_AFTER_SECONDS = 5;
const JSON_TYPE = "application/json; charset=utf-8";

/**
 * Headers of every answer.
 *
 * `private, no-cache`: orders are personal data, so no shared cache may store them; the client may, but must
 * revalidate, which the ETag makes cheap. `no-store` would forbid that.
 */
export const stampAnswer: Middleware = (_request, response, next) => {
  // Node draws the random bytes of many UUIDs at once.
  const digits = randomUUID().replaceAll("-", "").slice(0, REQUEST_ID_DIGITS);
  setHeaders(response, {
    [REQUEST_ID_HEADER]: `req_${digits}`,
    "Cache-Control": "private, no-cache",
    Vary: "Authorization, X-Source",
    "X-Content-Type-Options": "nosniff",
  });
  next();
};

/** Last of all routes. */
export const refuseAnyAddress: Middleware = () => {
  throw new RefusedRequestError(NO_SUCH_ADDRESS);
};

/**
 * Sends a JSON object that has no `request_id` with one; 304 if the client already has it.
 *
 * The ETag is weak because it ignores `request_id`, which is new each time.
 */
export function sendJson(response: ServerResponse, object: string, readers: Readers): void {
  const digest = hash("sha256", object, "base64url");
  const isKnown = hasCurrent(response.req, digest);
  if (!isKnown) holdUnread(response, object.length, readers);
  response.setHeader("ETag", `W/"${digest}"`);
  if (isKnown) response.writeHead(304).end();
  else sendObject(response, object);
}

/** Who reads an answer, and what is left for answers that nobody has read yet. */
export interface Readers {
  readonly unread: Shares;
  readonly client: string;
}

/** Calls back when an answer is over or its client has gone; at once if it has gone already, as that is told once. */
export function whenClosed(response: ServerResponse, call: () => void): void {
  if (response.destroyed) call();
  else response.once("close", call);
}

/** Counts an answer until the system has taken all of it, or its client has gone. Throws 503 too_many_unread. */
function holdUnread(response: ServerResponse, bytes: number, { unread, client }: Readers): void {
  whenClosed(response, unread.take(client, bytes));
}

/**
 * Sends JSON like `sendJson`, for a large object in parts, the last of which has its end, and without an ETag. Each
 * part is written in a turn of the event loop of its own, so that events that arrive meanwhile do not wait for all of
 * it.
 */
export async function sendJsonParts(
  response: ServerResponse,
  parts: readonly string[],
  readers: Readers,
): Promise<void> {
  holdUnread(
    response,
    parts.reduce((sum, part) => sum + part.length, 0),
    readers,
  );
  response.setHeader("Content-Type", JSON_TYPE);
  for (const part of parts.slice(0, -1)) {
    response.write(part);
    await nextTurn();
  }
  response.end(withRequestId(parts.at(-1) ?? "{}", requestId(response)).join(""));
}

/**
 * RFC 9110, 13.1.2. A `Cache-Control: no-cache` does not matter: fetch adds it to every request with If-None-Match, and
 * browsers send no If-None-Match at a forced reload.
 */
function hasCurrent({ method, headers }: IncomingMessage, digest: string): boolean {
  const known = headers["if-none-match"];
  if (known === undefined || (method !== "GET" && method !== "HEAD")) return false;
  return known === "*" || known.split(",").some((tag) => tag.trim().replace(/^W\//, "") === `"${digest}"`);
}

/** Sends the text of a JSON object with `request_id` added. */
function sendObject(response: ServerResponse, object: string): void {
  const parts = withRequestId(object, requestId(response));
  response.setHeader("Content-Type", JSON_TYPE);
  response.setHeader(
    "Content-Length",
    parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0),
  );
  response.cork();
  for (const part of parts) response.write(part);
  response.end();
}

/** Aborted when the client is gone. */
export function untilClosed(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  whenClosed(response, () => gone.abort(new Error("the client is gone")));
  return gone.signal;
}

/** Last in the chain: a constant body for every error (spec, "Errors"), and never a stack. */
export function makeErrorAnswer(logger: Logger) {
  // A router tells it from other middleware by its four parameters.
  return (error: unknown, request: IncomingMessage, response: ServerResponse, _next: unknown): void => {
    const refusal = toRefusal(error);
    if (refusal.status >= 500 && refusal !== error) {
      logger.error(
        { err: error, request_id: requestId(response), method: request.method },
        "read API failed",
      );
    }
    setHeaders(response, { ...refusal.headers, "Cache-Control": "no-store" });
    response.statusCode = refusal.status;
    sendObject(response, JSON.stringify({ error: { code: refusal.code, message: refusal.message } }));
  };
}

export const TOO_LARGE = { status: 413, code: "payload_too_large", message: "The body is too large." };

function toRefusal(error: unknown): RefusedRequestError {
  if (error instanceof RefusedRequestError) return error;
  // Express itself refuses an address that cannot be decoded, and a body that is too large or unreadable.
  const { status } = error as { status?: unknown };
  if (status === 413) return new RefusedRequestError(TOO_LARGE);
  if (status === 400 || status === 415) {
    const message = "The address or the body cannot be read.";
    return new RefusedRequestError({ status, code: "invalid_request", message });
  }
  if (isUnavailable(error))
    return refuseBusy(
      "temporarily_unavailable",
      "The mirror cannot be read at the moment.",
      RETRY_AFTER_SECONDS,
    );
  return new RefusedRequestError({ status: 500, code: "internal_error", message: "Something went wrong." });
}

/** Whether the mirror's database, or something else that comes back by itself, is away. */
export function isUnavailable(error: unknown): boolean {
  if (error instanceof OrderMirrorError) return error.retry === "later";
  return sqlState(error) === undefined
    ? isConnectionLost(error)
    : classifyDatabaseError(error) === "transient";
}

function requestId(response: ServerResponse): string {
  return String(response.getHeader(REQUEST_ID_HEADER));
}

/**
 * `object`, the text of a JSON object without a `request_id`, with one as its last member. In two parts, so that a page
 * is not copied; and nothing looks for an existing one, because that scans the page.
 *
 * Works on the text, so that an order stays as the provider wrote it: `JSON.parse` and `JSON.stringify` would change
 * the digits of long numbers and the order of fields.
 */
function withRequestId(object: string, requestId: string): [string, string] {
  const stamp = JSON.stringify(requestId);
  const body = object.trimEnd().slice(0, -1).trimEnd();
  return [body, `${body === "{" ? "" : ","}"request_id":${stamp}}`];
}

/** The text of a provider's JSON object without its own `request_id`. */
export function withoutRequestId(object: string): string {
  // Most do not even contain the word.
  const has = object.includes('"request_id"') && rawMember(object, "request_id") !== undefined;
  return has ? withoutMember(object, "request_id") : object;
}
