import { promisify } from "node:util";
import express, { type Request, type RequestHandler, type Response } from "express";
import type { ServerResponse } from "node:http";
import type { Apply } from "../apply/apply.ts";
import { OrderMirrorError, UnreadableSnapshotError, ConfigurationError } from "../domain/errors.ts";
import type { Snapshot } from "../domain/order/order.ts";
import type { ForwardedAnswer, ForwardedRequest, Forward } from "./forward.ts";
import { BODY_ALREADY_READ, takeReadBody } from "../process/readBody.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { readOrderResponse } from "../wire/order.ts";
import type { Authenticate } from "./authenticate.ts";
import { TOO_LARGE, untilClosed } from "./respond.ts";
import { CONTRACT_ENDPOINTS, matchEndpoint, readTarget } from "../wire/endpoints.ts";
import { RefusedRequestError, NO_SUCH_ADDRESS } from "../wire/refusal.ts";
import { ProviderError, type RawAnswer } from "../provider/errors.ts";
import { UNSENDABLE } from "../provider/exchange.ts";

export interface WriteThroughDeps {
  readonly authenticate: Authenticate;
  /** Sends with a source's own key; one per source. */
  readonly forward: (sourceId: string) => Forward;
  readonly applyReads: Apply["applyReads"];
  /** The delay with which a change may become visible to a read. */
  readonly marginSeconds: number;
  readonly logger: Logger;
}

/** The spec shows no limit; a larger body would only fill the memory. */
const BODY_BYTES_MAX = 1024 * 1024;

export const WRITE_METHODS: readonly string[] = [
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
] satisfies ForwardedRequest["method"][];

/**
 * References that lead elsewhere once the provider's server has decoded them: `..`, `%2F`, `%5C`, `;`, control
 * characters.
 */
const MISLEADING = /^\.{1,2}$|[/\\;%\p{Cc}]/u;

/** Headers of the provider's answer that describe the answer, not a connection. */
const PASSED_HEADERS = [
  "content-type",
  "ratelimit",
  "ratelimit-policy",
  "retry-after",
  "service-subscription-state",
  "allow",
] as const;

/**
 * Passes a write of the contract on to the provider with the source's own key, and answers as the provider did (spec,
 * "Endpoints": create, quote, change, cancel, advance, address check). The router lets no other write through: with
 * keys or webhook endpoints, a token that may order couriers would take over the account.
 *
 * The order in the answer is in the mirror before the caller gets it. When the mirror cannot take it now, the answer
 * says `X-Mirrored: later` and is forwarded anyway: the provider has done it, and polling will bring it.
 */
export function makeWriteThrough(deps: WriteThroughDeps): RequestHandler {
  const { authenticate, forward, logger } = deps;
  return async (request, response) => {
    const { sourceId } = authenticate(request, { writes: true });
    const { path } = readTarget(addressOf(request));
    const { reference } = matchEndpoint(CONTRACT_ENDPOINTS, request.method, path);
    if (MISLEADING.test(reference)) throw new RefusedRequestError(NO_SUCH_ADDRESS);
    const body = await readBody(request, response);
    const bytes = body.length > 0 ? new Uint8Array(body) : undefined;
    const gone = untilClosed(response);
    let answer: ForwardedAnswer;
    try {
      const method = request.method as ForwardedRequest["method"];
      answer = await forward(sourceId)({ method, path: addressOf(request), bytes, gone });
    } catch (error) {
      if (gone.aborted && error === gone.reason) return;
      const refusal = refuseForProvider(error);
      if (error instanceof OrderMirrorError)
        logger.info({ err: error, source: sourceId }, "a write was not forwarded, or refused");
      if (refusal instanceof RefusedRequestError) throw refusal;
      sendAsItCame(response, refusal);
      return;
    }
    if (!(await mirror(deps, { sourceId, answer }))) response.setHeader("X-Mirrored", "later");
    sendAsItCame(response, answer);
  };
}

/** The address at the provider, also where the mirror is mounted below another path: the router has taken `/v1`. */
const addressOf = ({ url }: Request) => `/v1${url}`;

const readRaw = express.raw({ type: () => true, limit: BODY_BYTES_MAX });

/** The bytes of the body. A body whose bytes are gone is refused: the provider would get an empty one. */
async function readBody(request: Request, response: Response): Promise<Buffer> {
  const read = takeReadBody(request);
  if (read === "lost")
    throw new RefusedRequestError({ status: 500, code: "body_already_read", message: BODY_ALREADY_READ });
  if (read === undefined) await promisify(readRaw)(request, response);
  const body: unknown = read ?? request.body;
  if (!Buffer.isBuffer(body)) return Buffer.alloc(0);
  if (body.length > BODY_BYTES_MAX) throw new RefusedRequestError(TOO_LARGE);
  return body;
}

/** False when the answer shows an order that the mirror could not take now. */
async function mirror(
  { applyReads, marginSeconds, logger }: WriteThroughDeps,
  { sourceId, answer }: { sourceId: string; answer: ForwardedAnswer },
): Promise<boolean> {
  const snapshot = readOrder(answer.text);
  if (snapshot === undefined) return true;
  const time = { requestedAt: answer.requestedAt, marginSeconds };
  try {
    await applyReads({ sourceId, via: "write", snapshots: [snapshot], time });
    return true;
  } catch (error) {
    logger.error({ err: error, source: sourceId }, "an order that was written is not mirrored yet");
    return false;
  }
}

/** Undefined where the answer is no order: a quote, a checked address. */
function readOrder(text: string): Snapshot | undefined {
  if (!text.trimStart().startsWith("{")) return undefined;
  try {
    return readOrderResponse(text);
  } catch (error) {
    if (error instanceof UnreadableSnapshotError) return undefined;
    throw error;
  }
}

function sendAsItCame(response: ServerResponse, { status, headers, text }: RawAnswer): void {
  for (const name of PASSED_HEADERS) {
    const value = headers.get(name);
    if (value !== null) response.setHeader(name, value);
  }
  response.setHeader("Cache-Control", "no-store");
  response.statusCode = status;
  response.end(text);
}

const OUTCOME_UNKNOWN =
  "Whether it happened is unknown: look for the order, by externalOrderId if it has one, before sending it again.";
// A constant sentence: the names of another organization's branches belong in the log, and the provider's 401 would say
// that the caller's own token is wrong.
const KEY_REFUSED = {
  status: 502,
  code: "source_key_refused",
  message:
    "The provider does not accept the mirror's key for this source, or its address or key is not the source's own.",
};
const TOO_LATE = {
  status: 504,
  code: "provider_timeout",
  message: `The provider did not answer in time. ${OUTCOME_UNKNOWN}`,
};
const NOT_SENT = {
  status: 502,
  code: "provider_unavailable",
  message: "The provider cannot be reached, so nothing was sent: send it again later.",
};
const UNUSABLE = {
  status: 502,
  code: "provider_unavailable",
  message: `The provider gave no usable answer. ${OUTCOME_UNKNOWN}`,
};

/**
 * The answer to a write that the provider did not carry out: the provider's unchanged refusal, if there is one;
 * otherwise ours in the same format (spec, "Errors"). Throws errors that are not the provider's.
 */
function refuseForProvider(error: unknown): RawAnswer | RefusedRequestError {
  if (error instanceof ConfigurationError) return new RefusedRequestError(KEY_REFUSED);
  if (!(error instanceof ProviderError)) throw error;
  if (error.code === UNSENDABLE) return new RefusedRequestError(NO_SUCH_ADDRESS);
  if (error.status === 401) return new RefusedRequestError(KEY_REFUSED);
  const answer = error.readAnswer();
  if (answer !== undefined) return answer;
  if (error.failure === "rate_limited") return refuseRate(error);
  if (!error.sent) return new RefusedRequestError(NOT_SENT);
  return new RefusedRequestError(error.failure === "timeout" ? TOO_LATE : UNUSABLE);
}

/** The provider's own form (spec, "Limits"): Retry-After in seconds, a message that names the policy. */
function refuseRate({ policy, retry }: ProviderError): RefusedRequestError {
  const seconds = typeof retry === "object" ? Math.max(1, Math.ceil(retry.afterMs / 1_000)) : 1;
  const named = policy === null ? "a policy" : `the policy "${policy}"`;
  return new RefusedRequestError({
    status: 429,
    code: "rate_limit_exceeded",
    message: `Rate limit of ${named} exceeded; retry after ${seconds} s.`,
    headers: { "Retry-After": String(seconds) },
  });
}
