import type { z } from "zod";
import { ConfigurationError } from "../domain/errors.ts";
import { tryDecodeText, tryParseJson } from "../domain/parseJson.ts";
import { parseHttpDate, type Instant } from "../domain/order/instant.ts";
import { DeadlineReached } from "../process/abort.ts";
import type { Clock } from "../process/clock.ts";
import { describeError } from "../process/telemetry/errorFields.ts";
import { VERSION } from "../process/version.ts";
import { describeMistakes } from "../wire/order.ts";
import { policiesOf, type Learn, type PolicyName } from "./budget.ts";
import { makeRefusalError, NO_REFUSAL, ProviderError, readRefusal, readRequestId } from "./errors.ts";
import type { ProviderClock } from "./providerClock.ts";
import { parseRetryAfter, readRemaining } from "./rateHeaders.ts";

// One HTTP request and its answer: the address and the key, the bounds of the body, and the error of every failure.

export interface ProviderRequest {
  readonly method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** The spec's form of the path, such as `/v1/orders/{reference}`: the only part that errors and log lines show. */
  readonly route: string;
  /** The value of `{reference}` in `route`. */
  readonly reference?: string;
  readonly query?: URLSearchParams;
  /** Sent instead of `route`: a foreign path and query, from `/v1/` on. */
  readonly path?: string;
  /** The body; not on shared memory. No type argument: TypeScript has none before 5.7. */
  readonly bytes?: Uint8Array | undefined;
  readonly policy: PolicyName;
  /** True if the request changes nothing at the provider, so that it may be repeated freely. */
  readonly safe: boolean;
}

/** A success: 2xx with a JSON body. */
export interface ProviderAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly value: unknown;
  readonly requestId: string | null;
  /** The provider's time at which the request started, a lower bound. */
  readonly requestedAt: Instant;
}

/** Larger than any page of the spec's 200 orders; reading further would only fill the memory. */
export const BODY_BYTES_MAX = 10 * 1024 * 1024;

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;
/** Visible ASCII: any other character makes `fetch` throw an error that quotes the whole header. */
const SENDABLE_KEY = /^[\x21-\x7e]+$/;
const TOO_MANY_REQUESTS = 429;
const SERVER_ERROR_MIN = 500;

export interface Target {
  readonly baseUrl: string;
  /** Null: nothing authorizes the requests; for a mirror that trusts its own machine. */
  readonly apiKey: string | null;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** A request with the arguments for `fetch`. */
export interface PreparedRequest {
  readonly request: ProviderRequest;
  readonly url: URL;
  readonly init: RequestInit;
}

/**
 * Makes the function that prepares requests, always for the one address that the key belongs to; it throws a
 * ProviderError if the reference cannot be part of a path. Throws ConfigurationError for an unusable base address or
 * key; the message shows neither.
 */
export function makePrepare(target: Target): (request: ProviderRequest) => PreparedRequest {
  const { baseUrl, apiKey } = target;
  if (apiKey !== null && !SENDABLE_KEY.test(apiKey)) {
    throw new ConfigurationError("the API key is empty or holds characters that no key has", {
      fix: "look for spaces or a line break in the value of the key",
    });
  }
  const base = parseBaseUrl(baseUrl);
  const prefix = base.origin + base.pathname.replace(/\/+$/, "");
  const common = {
    ...target.headers,
    ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
    accept: "application/json",
    "user-agent": `order-mirror/${VERSION}`,
  };
  return (request) => {
    const { method, route, reference, path, query, bytes } = request;
    const own = reference === undefined ? route : route.replace("{reference}", encodeReference(reference));
    const url = new URL(prefix + (path ?? own));
    // Dot segments, even encoded, would let a foreign path leave the API.
    if (!url.href.startsWith(`${prefix}/v1/`)) throw makeUnsendable("leads out of the provider's interface");
    if (query !== undefined) url.search = query.toString();
    const body = (bytes as Uint8Array<ArrayBuffer> | undefined) ?? null;
    const headers = body === null ? common : { ...common, "content-type": "application/json" };
    // The key must never follow a redirect to another address, so redirects are not followed.
    return { request, url, init: { method, headers, redirect: "manual", body } };
  };
}

function parseBaseUrl(baseUrl: string): URL {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : null;
  const isHttp = url !== null && (url.protocol === "http:" || url.protocol === "https:");
  if (!isHttp || url.username + url.password + url.search + url.hash !== "") {
    throw new ConfigurationError("the base address is not a plain http or https address", {
      fix: "write it like https://api.example.com; the provider's is in DELIVERY_BASE_URL",
    });
  }
  return url;
}

/** `.` and `..` survive encoding and would select another endpoint; half a surrogate pair cannot be encoded. */
function encodeReference(reference: string): string {
  if (reference === "" || reference === "." || reference === ".." || /\p{Surrogate}/u.test(reference)) {
    throw makeUnsendable("cannot be part of an address");
  }
  return encodeURIComponent(reference);
}

/** The code of a reference or path that cannot be sent. */
export const UNSENDABLE = "unsendable_path";

function makeUnsendable(why: string): ProviderError {
  const text = `nothing was sent: this reference ${why}`;
  return new ProviderError(text, { failure: "refused", code: UNSENDABLE });
}

interface ExchangeRequest {
  readonly prepared: PreparedRequest;
  readonly learn: Learn;
  readonly signal: AbortSignal;
}

/** Makes what sends a request once, up to the head or to the end of its answer. Both throw a ProviderError. */
export function makeExchange({ clock, providerClock }: { clock: Clock; providerClock: ProviderClock }) {
  /** Resolves with the head of a success. */
  async function open({ prepared, learn, signal }: ExchangeRequest) {
    const { request, url, init } = prepared;
    const startedAtMs = clock.monotonicMs();
    try {
      const response = await fetch(url, { ...init, signal });
      const { headers, status } = response;
      providerClock.observe({ date: headers.get("date"), receivedAtMs: clock.monotonicMs() });
      const retryAfterMs = response.ok ? null : readRetryAfterMs(response, providerClock);
      const refusedForMs = status === TOO_MANY_REQUESTS ? retryAfterMs : null;
      const refused = learn({ remaining: readRemaining(headers), refusedForMs });
      if (!response.ok) throw await readRefused(request, response, { retryAfterMs, refused });
      return { response, requestedAt: providerClock.instantAt(startedAtMs) };
    } catch (error) {
      throw toUnavailable(request, { error, signal });
    }
  }

  async function exchange(sent: ExchangeRequest): Promise<ProviderAnswer> {
    const { request } = sent.prepared;
    const { response, requestedAt } = await open(sent);
    const { headers, status } = response;
    const { text, value } = await readJsonBody(describeEndpoint(request), response).catch(
      (error: unknown) => {
        throw toUnavailable(request, { error, signal: sent.signal });
      },
    );
    return { status, headers, text, value, requestId: readRequestId(value), requestedAt };
  }

  return { open, exchange };
}

/** The error for an unsuccessful answer. `refused` are the policies that a 429 may refer to. */
async function readRefused(
  request: ProviderRequest,
  response: Response,
  { retryAfterMs, refused }: { retryAfterMs: number | null; refused: readonly PolicyName[] },
): Promise<ProviderError> {
  const { headers, status } = response;
  const endpoint = describeEndpoint(request);
  // The status alone suffices, whatever happened to the body; a redirect's is not read.
  const body =
    status < 400
      ? await discardBody(response)
      : await readJsonBody(endpoint, response).catch(() => undefined);
  const refusal = body === undefined ? NO_REFUSAL : readRefusal(body.value);
  const answer = body === undefined ? undefined : { status, headers, text: body.text };
  const named = policiesOf(request.policy).find((policy) => refusal.message?.includes(policy));
  const policy = named ?? (refused.length === 1 ? (refused[0] ?? null) : null);
  const namesOrder = request.reference !== undefined;
  return makeRefusalError({ endpoint, namesOrder, status, refusal, retryAfterMs, policy, answer });
}

/** Null if it is not applicable; a 5xx without the field requires no wait. */
function readRetryAfterMs({ status, headers }: Response, providerClock: ProviderClock): number | null {
  const field = headers.get("retry-after");
  if (status !== TOO_MANY_REQUESTS && (status < SERVER_ERROR_MIN || field === null)) return null;
  const sentAt = parseHttpDate(headers.get("date") ?? "") ?? providerClock.providerNow();
  return parseRetryAfter(field, sentAt);
}

/** Read in chunks, up to BODY_BYTES_MAX after decompression. Throws a ProviderError, or network errors. */
async function readJsonBody(endpoint: string, response: Response): Promise<{ text: string; value: unknown }> {
  if (!JSON_TYPE.test(response.headers.get("content-type") ?? "")) {
    await discardBody(response);
    throw makeUnreadable(endpoint, response, "the content type is not JSON");
  }
  const bytes = await readBytes(response.body, BODY_BYTES_MAX);
  if (bytes === undefined) {
    const text = `the answer to ${endpoint} exceeds ${BODY_BYTES_MAX} bytes`;
    throw new ProviderError(text, { failure: "too_large", status: response.status });
  }
  const text = tryDecodeText(bytes);
  const value = text === undefined ? undefined : tryParseJson(text);
  // Without a cause, which would quote the body.
  if (text === undefined || value === undefined)
    throw makeUnreadable(endpoint, response, "the body is not JSON in UTF-8");
  return { text, value };
}

/** Releases the connection without reading further. */
async function discardBody(response: Response): Promise<undefined> {
  // A body that has already failed needs no release.
  await response.body?.cancel().catch(() => undefined);
}

/** Keeps a ProviderError; anything else means that there was no usable answer. */
export function toUnavailable(
  request: ProviderRequest,
  { error, signal }: { error: unknown; signal: AbortSignal },
): ProviderError {
  if (error instanceof ProviderError) return error;
  const endpoint = describeEndpoint(request);
  if (signal.reason instanceof DeadlineReached) {
    return new ProviderError(`${endpoint} was not answered in time`, { failure: "timeout" });
  }
  const code = findCode(error);
  const sent = !UNCONNECTED.has(code);
  const what = sent ? "could not be sent, or its answer was cut off" : "was not sent: no connection";
  const text = `${endpoint} ${what}${code === "" ? "" : ` (${code})`}`;
  return new ProviderError(text, { failure: "unavailable", sent, cause: error });
}

/** Codes of failures before there is a connection; that a host is unreachable may also end one that has sent. */
const UNCONNECTED: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** A success that cannot be used. `mistake` names paths, never values. */
export function makeUnreadable(
  endpoint: string,
  { status, requestId = null }: { readonly status: number; readonly requestId?: string | null },
  mistake: string,
): ProviderError {
  const text = `${endpoint} was answered unreadably: ${mistake}`;
  return new ProviderError(text, { failure: "unreadable", status, requestId });
}

/** Parses the answer's value with `schema`. Throws a ProviderError that names paths, never values. */
export function parseAnswer<Schema extends z.ZodType>(
  schema: Schema,
  endpoint: string,
  answer: ProviderAnswer,
): z.infer<Schema> {
  const result = schema.safeParse(answer.value);
  if (result.success) return result.data;
  throw makeUnreadable(endpoint, answer, describeMistakes(result.error));
}

/**
 * The system's or fetch's code, empty if there is none; fetch hides it in a cause. Codes only: texts may quote input.
 */
function findCode(error: unknown): string {
  let cause = error;
  while (cause instanceof Error) {
    const { code } = describeError(cause);
    if (code !== undefined) return code;
    cause = cause.cause;
  }
  return "";
}

/** Names the endpoint of a request, such as `POST /v1/orders`. */
export function describeEndpoint({ method, route }: ProviderRequest): string {
  return `${method} ${route}`;
}

/**
 * All bytes of a body; undefined if it has more than `bytesMax`, whose rest is not read. Rejects with the body's
 * errors.
 */
export async function readBytes(
  body: AsyncIterable<Uint8Array> | null,
  bytesMax: number,
): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.byteLength;
    if (length > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
