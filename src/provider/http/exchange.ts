import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { PreparedRequest } from "./address.ts";
import type { Permit } from "../rate/budget.ts";
import { describeError } from "../../runtime/telemetry/errorFields.ts";
import { DeadlineReached } from "../../runtime/lifecycle/abort.ts";
import { ProviderError, ProviderUnavailableError } from "../errors.ts";
import { parseHttpDate } from "../../domain/order/instant.ts";
import { policiesOf } from "../rate/policies.ts";
import type { PolicyName } from "../rate/policies.ts";
import type { ProviderClock } from "../rate/providerClock.ts";
import { readRateHeaders } from "../rate/rateHeaders.ts";
import { discardBody, readJsonBody, UnreadableBodyError } from "./readBody.ts";
import { makeRefusalError, NO_REFUSAL, readRefusal, readRequestId } from "../refusal.ts";
import type { ProviderRefusal } from "../refusal.ts";
import { describeEndpoint } from "./request.ts";
import type { ProviderAnswer, ProviderRequest } from "./request.ts";
import { parseRetryAfter } from "../rate/retryAfter.ts";

export interface ExchangeRequest {
  readonly request: ProviderRequest;
  readonly prepared: PreparedRequest;
  readonly permit: Permit;
  readonly signal: AbortSignal;
}

/** One HTTP request and its answer. Its errors go through toUnavailable. */
export function makeExchange(deps: {
  clock: Clock;
  providerClock: ProviderClock;
}): (exchange: ExchangeRequest) => Promise<ProviderAnswer> {
  const { clock, providerClock } = deps;

  async function exchange({ request, prepared, permit, signal }: ExchangeRequest): Promise<ProviderAnswer> {
    const startedAtMs = clock.monotonicMs();
    const response = await fetch(prepared.url, { ...prepared.init, signal });
    const { headers, status } = response;
    providerClock.observe({ date: headers.get("date"), startedAtMs, receivedAtMs: clock.monotonicMs() });
    const requestedAt = providerClock.instantAt(startedAtMs);
    if (!response.ok) throw await refuse(request, response, permit);
    const rate = readRateHeaders(headers);
    permit.learn({ ...rate, refusedForMs: null });
    permit.release();
    try {
      const { text, value } = await readJsonBody(response);
      return {
        status,
        headers,
        text,
        value,
        requestId: readRequestId(value),
        rates: rate.declared,
        requestedAt,
      };
    } catch (error) {
      throw toUnavailable(request, { status, error, signal });
    }
  }

  async function refuse(
    request: ProviderRequest,
    response: Response,
    permit: Permit,
  ): Promise<ProviderError> {
    const { headers, status } = response;
    const retryAfterMs = readRetryAfterMs(response, providerClock);
    const refusedForMs = status === TOO_MANY_REQUESTS ? retryAfterMs : null;
    const refused = permit.learn({ ...readRateHeaders(headers), refusedForMs });
    // Before the body, which may be slow: others wait for the end of this request.
    permit.release();
    return readRefused(request, response, { retryAfterMs, refused });
  }

  return exchange;
}

/** The error for an unsuccessful answer. `refused` are the policies that a 429 may refer to. */
export async function readRefused(
  request: ProviderRequest,
  response: Response,
  { retryAfterMs, refused }: { retryAfterMs: number | null; refused: readonly PolicyName[] },
): Promise<ProviderError> {
  const { headers, status } = response;
  const { refusal, text } = await readRefusalOf(response);
  const named = policiesOf(request.policy).find((policy) => refusal.message?.includes(policy));
  const policy = named ?? (refused.length === 1 ? (refused[0] ?? null) : null);
  const answer = text === null ? undefined : { status, headers, text };
  const endpoint = describeEndpoint(request);
  const namesOrder = request.reference !== undefined;
  return makeRefusalError({ endpoint, namesOrder, status, refusal, retryAfterMs, policy, answer });
}

const TOO_MANY_REQUESTS = 429;
const SERVER_ERROR_MIN = 500;

/** Null if it is not applicable; a 5xx without the field requires no wait. */
export function readRetryAfterMs({ status, headers }: Response, providerClock: ProviderClock): number | null {
  const field = headers.get("retry-after");
  if (status !== TOO_MANY_REQUESTS && (status < SERVER_ERROR_MIN || field === null)) return null;
  const sentAt = parseHttpDate(headers.get("date") ?? "") ?? providerClock.providerNow();
  return parseRetryAfter(field, sentAt);
}

async function readRefusalOf(response: Response): Promise<{ refusal: ProviderRefusal; text: string | null }> {
  const unread = { refusal: NO_REFUSAL, text: null };
  if (response.status < 400) {
    await discardBody(response);
    return unread;
  }
  try {
    const { text, value } = await readJsonBody(response);
    return { refusal: readRefusal(value), text };
  } catch {
    // The status alone suffices, whatever happened to the body.
    return unread;
  }
}

/** Keeps a ProviderError; anything else means that there was no usable answer. */
export function toUnavailable(
  request: ProviderRequest,
  { status, error, signal }: { status: number | null; error: unknown; signal: AbortSignal },
): ProviderError {
  if (error instanceof ProviderError) return error;
  const facts = { status, code: null, requestId: null };
  const endpoint = describeEndpoint(request);
  if (error instanceof UnreadableBodyError) {
    const text = `${endpoint} was answered unreadably: ${error.message}`;
    return new ProviderUnavailableError(text, facts, { reason: "unreadable" });
  }
  if (signal.reason instanceof DeadlineReached) {
    return new ProviderUnavailableError(`${endpoint} was not answered in time`, facts, { reason: "timeout" });
  }
  const text = `${endpoint} could not be sent, or its answer was cut off${nameCause(error)}`;
  return new ProviderUnavailableError(text, facts, { reason: "network", cause: error });
}

/** The system's or fetch's code, such as ` (ECONNREFUSED)`; fetch hides it in a cause. Codes only: texts may quote input. */
function nameCause(error: unknown): string {
  let cause = error;
  while (cause instanceof Error) {
    const { code } = describeError(cause);
    if (code !== undefined) return ` (${code})`;
    cause = cause.cause;
  }
  return "";
}
