import { z } from "zod";
import type { Retry } from "../domain/errors.ts";
import { SourceError, type SourceFailure } from "../domain/source/errors.ts";

/** An unchanged answer, for forwarding. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

interface ProviderErrorFacts {
  readonly failure: SourceFailure;
  readonly status?: number | null;
  readonly code?: string | null;
  readonly requestId?: string | null;
  readonly policy?: string | null;
  /** Default: `later` when nobody answered or the answer was unusable, and `never` after a refusal. */
  readonly retry?: Retry;
  /** False: there was no connection, so the provider has not seen the request. Default true. */
  readonly sent?: boolean;
  readonly fix?: string | undefined;
  readonly cause?: unknown;
  /** Only if there was an answer with a JSON body. */
  readonly answer?: RawAnswer | undefined;
}

/**
 * Everything that the provider's client throws for a request. The message has the endpoint, the status and the code,
 * but no text from a body and no reference: those may be personal data. `failure` says what kind of failure it is:
 *
 * - `key_refused`: 401; `not_found`: the provider says `order_not_found`;
 * - `rate_limited`: 429, or not sent because its turn is too far away; `retry.afterMs` and `policy` say more;
 * - `timeout`, `unavailable` (no answer, one that was cut off, a 5xx, or a 404 or 410 for one order without that code,
 *   which any gateway may send), `unreadable` (a success that is not JSON, or not as in the spec), `too_large` (a
 *   success with more bytes than are read): whether the provider did what was asked is unknown, unless `sent` is false;
 * - `refused`: everything else, by `status` and `code`.
 */
export class ProviderError extends SourceError {
  override readonly name = "ProviderError";
  readonly failure: SourceFailure;
  readonly retry: Retry;
  /** Null if there was no answer. */
  readonly status: number | null;
  /** The provider's code; null if only the status says it, which a proxy may also do. */
  readonly code: string | null;
  readonly requestId: string | null;
  /** The exceeded policy of a 429; null if it is unknown. */
  readonly policy: string | null;
  readonly sent: boolean;
  /** Private, so that no log or inspection shows it. */
  readonly #answer: RawAnswer | undefined;

  constructor(message: string, facts: ProviderErrorFacts) {
    super(message, facts);
    const isOutcomeUnknown = ["timeout", "unavailable", "unreadable", "too_large"].includes(facts.failure);
    this.failure = facts.failure;
    this.status = facts.status ?? null;
    this.code = facts.code ?? null;
    this.requestId = facts.requestId ?? null;
    this.policy = facts.policy ?? null;
    this.retry = facts.retry ?? (isOutcomeUnknown ? "later" : "never");
    this.sent = facts.sent ?? true;
    this.#answer = facts.answer;
  }

  /** The provider's refusal, including personal data: forward it to the caller, but never log it. */
  readAnswer(): RawAnswer | undefined {
    return this.#answer;
  }
}

/** A refused request: its answer, and the endpoint in words, for example `POST /v1/orders`. */
export interface RefusedAnswer {
  readonly endpoint: string;
  /** The path names one order, so "not found" refers to that order. */
  readonly namesOrder: boolean;
  readonly status: number;
  readonly refusal: ProviderRefusal;
  /** The wait that a 429 or a 5xx with Retry-After asks for, bounded; null for any other answer. */
  readonly retryAfterMs: number | null;
  readonly policy: string | null;
  readonly answer?: RawAnswer | undefined;
}

/**
 * The parts of an error body that are read; `message` names the policy of a 429 (spec, "Limits"), and is never shown.
 */
export type ProviderRefusal = Readonly<Record<"code" | "message" | "requestId", string | null>>;

/** The body was missing or unreadable. */
export const NO_REFUSAL: ProviderRefusal = { code: null, message: null, requestId: null };

// Short plain words only: they are shown, and other text might be personal data.
const word = (shape: RegExp) => z.string().regex(shape).nullable().catch(null);
const code = word(/^[a-z0-9_]{1,64}$/);
const requestId = word(/^[\w.:-]{1,128}$/);
const message = z.string().nullable().catch(null);

/** Assumed format `{ error: { code, message }, request_id }`; code and message are also read at the top level. */
const refusalBody = z.object({
  error: z.object({ code, message }).catch({ code: null, message: null }),
  code,
  message,
  request_id: requestId,
});

/** The business's remedy for each refusal (spec, "Errors"). */
const FIXES: ReadonlyMap<string | null, string> = new Map([
  ["invalid_api_key", "check the key: it is missing, unknown, or of the other mode"],
  ["subscription_inactive", "pay the subscription; until then only reads work"],
  ["feature_not_available", "this needs another plan of the provider"],
  [
    "branch_not_connected",
    "set a primary connection of the branch to a fleet zone in the provider's dashboard",
  ],
  ["duplicate_external_order_id", "an order with this externalOrderId exists: read it"],
]);

/** Reads the body of a refused request; `value` is its JSON, or undefined if it was not JSON. */
export function readRefusal(value: unknown): ProviderRefusal {
  const { data: body } = refusalBody.safeParse(value);
  if (body === undefined) return NO_REFUSAL;
  const { error } = body;
  return {
    code: error.code ?? body.code,
    message: error.message ?? body.message,
    requestId: body.request_id,
  };
}

/** `request_id` of any answer, null if there is none. */
export function readRequestId(value: unknown): string | null {
  const named = (value as { request_id?: unknown } | null | undefined)?.request_id;
  return named === undefined ? null : requestId.parse(named);
}

/**
 * Makes the error for an unsuccessful answer. The status decides if it is sufficient: 3xx, 401, 429, 5xx. Otherwise the
 * code says what was refused; a 404 without one may come from any web server.
 */
export function makeRefusalError(refused: RefusedAnswer): ProviderError {
  const { endpoint, status, refusal, retryAfterMs, policy, answer } = refused;
  const { code: named, requestId: id } = refusal;
  const described = id === null ? `HTTP ${status}` : `HTTP ${status}, request ${id}`;
  const asked: { retry?: Retry } = retryAfterMs === null ? {} : { retry: { afterMs: retryAfterMs } };
  const facts = { status, code: named, requestId: id, policy, answer, ...asked };
  if (status < 400) {
    return new ProviderError(`${endpoint} was redirected (${described})`, {
      ...facts,
      failure: "refused",
      fix: "set the base address (the provider's is in DELIVERY_BASE_URL) to the one that answers by itself",
    });
  }
  if (status >= 500)
    return new ProviderError(`${endpoint} failed (${described})`, { ...facts, failure: "unavailable" });
  const failure = judgeRefusal(refused);
  const limited = status === 429 ? describeLimit(policy, retryAfterMs) : "";
  const text = `${endpoint} was refused: ${named ?? "no code"}${limited} (${described})`;
  const fix = FIXES.get(failure === "key_refused" ? "invalid_api_key" : named);
  return new ProviderError(text, { ...facts, failure, fix });
}

/** Names the policy that is waited for, and how long. */
function describeLimit(policy: string | null, retryAfterMs: number | null): string {
  const name = policy === null ? "" : `, by "${policy}"`;
  return retryAfterMs === null ? name : `${name}, for ${Math.ceil(retryAfterMs / 1_000)} s`;
}

function judgeRefusal({ status, namesOrder, refusal }: RefusedAnswer): SourceFailure {
  if (status === 429) return "rate_limited";
  if (status === 401) return "key_refused";
  if (refusal.code === "order_not_found") return "not_found";
  if (namesOrder && (status === 404 || status === 410)) return "unavailable";
  return refusal.code === "invalid_api_key" ? "key_refused" : "refused";
}
