import { createHash, randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ErrorRequestHandler, RequestHandler, Response } from "express";
import { OrderMirrorError, UnavailableError } from "../domain/errors.ts";
import { classifyDatabaseError } from "../database/databaseErrors.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { NO_SUCH_ADDRESS, RefusedRequestError } from "../wire/refusal.ts";
import { withRequestId } from "./requestId.ts";

const REQUEST_ID_HEADER = "X-Request-Id";
const RETRY_AFTER_SECONDS = 5;

/**
 * Headers of every answer.
 *
 * `private, no-cache`: orders are personal data, so no shared cache may store them; the client may, but must
 * revalidate, which the ETag makes cheap. `no-store` would forbid that.
 */
export const stampAnswer: RequestHandler = (_request, response, next) => {
  response.set({
    [REQUEST_ID_HEADER]: `req_${randomBytes(12).toString("hex")}`,
    "Cache-Control": "private, no-cache",
    Vary: "Authorization, X-Source",
    "X-Content-Type-Options": "nosniff",
  });
  next();
};

/** Last of all routes. */
export const refuseAnyAddress: RequestHandler = () => {
  throw new RefusedRequestError(NO_SUCH_ADDRESS);
};

/**
 * Sends a JSON object with `request_id` added; 304 if the client already has it.
 *
 * The ETag is weak because it ignores `request_id`, which is new each time.
 */
export function sendJson(response: Response, object: string): void {
  response.set("ETag", `W/"${createHash("sha256").update(object).digest("base64url")}"`);
  response.type("json").send(withRequestId(object, requestId(response)));
}

/** Waits for a read. Throws UnavailableError for transient failures: the client can retry later. */
export async function readOrUnavailable<Result>(read: Promise<Result>): Promise<Result> {
  try {
    return await read;
  } catch (error) {
    if (classifyDatabaseError(error) !== "transient") throw error;
    throw new UnavailableError("The mirror's database does not answer.", { cause: error });
  }
}

/** Last in the chain: a constant body for every error (spec, "Errors"), and never a stack. */
export function makeErrorAnswer(logger: Logger): ErrorRequestHandler {
  return (error: unknown, request, response, _next) => {
    const refusal = toRefusal(error);
    if (refusal.status >= 500 && refusal !== error) {
      logger.error(
        { err: error, request_id: requestId(response), method: request.method },
        "read API failed",
      );
    }
    response.removeHeader("ETag");
    response.set({ ...refusal.headers, "Cache-Control": "no-store" });
    const body = JSON.stringify({ error: { code: refusal.code, message: refusal.message } });
    response
      .status(refusal.status)
      .type("json")
      .send(withRequestId(body, requestId(response)));
  };
}

function toRefusal(error: unknown): RefusedRequestError {
  if (error instanceof RefusedRequestError) return error;
  if (error instanceof OrderMirrorError && error.retry === "later") {
    const headers = { "Retry-After": String(RETRY_AFTER_SECONDS) };
    const message = "The mirror cannot be read at the moment.";
    return new RefusedRequestError({ status: 503, code: "temporarily_unavailable", message, headers });
  }
  // Express itself refuses an address that cannot be decoded, and a body that is too large or unreadable.
  const { status } = error as { status?: unknown };
  if (status === 413) {
    const message = "The body is too large.";
    return new RefusedRequestError({ status, code: "payload_too_large", message });
  }
  if (status === 400 || status === 415) {
    const message = "The address or the body cannot be read.";
    return new RefusedRequestError({ status, code: "invalid_request", message });
  }
  return new RefusedRequestError({ status: 500, code: "internal_error", message: "Something went wrong." });
}

function requestId(response: Response): string {
  return String(response.get(REQUEST_ID_HEADER));
}

/** The body as a parser of Express leaves it. Throws what the parser refuses, such as 413 beyond its limit. */
export async function readWith(
  parse: (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void,
  request: IncomingMessage & { body?: unknown },
  response: ServerResponse,
): Promise<unknown> {
  await new Promise<void>((resolve, reject) => {
    parse(request, response, (error?: unknown) => (error === undefined ? resolve() : reject(error as Error)));
  });
  return request.body;
}
