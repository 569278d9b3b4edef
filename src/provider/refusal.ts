import { z } from "zod";
import {
  AddressRefusedError,
  BranchNotConnectedError,
  DuplicateExternalOrderIdError,
  FeatureNotAvailableError,
  InvalidApiKeyError,
  NoShiftCoverageError,
  OrderNotCancellableError,
  OrderNotFoundError,
  ProviderRedirectError,
  ProviderRefusedError,
  ProviderUnavailableError,
  RateLimitedError,
  SubscriptionInactiveError,
} from "./errors.ts";
import type { AnswerFacts, ProviderError, RawAnswer } from "./errors.ts";

/** The parts of an error body that are read; null if missing or invalid. */
export interface ProviderRefusal {
  readonly code: string | null;
  /** Identifies the policy of a 429 (spec, "Limits"); never shown. */
  readonly message: string | null;
  readonly requestId: string | null;
}

/** A refused request: its answer, and the endpoint in words, for example `POST /v1/orders`. */
export interface RefusedAnswer {
  readonly endpoint: string;
  /** The path names one order, so "not found" refers to that order. */
  readonly namesOrder: boolean;
  readonly status: number;
  readonly refusal: ProviderRefusal;
  /** Of a 429, or of a 5xx with Retry-After, bounded; null for any other answer. */
  readonly retryAfterMs: number | null;
  readonly policy: string | null;
  readonly answer?: RawAnswer | undefined;
}

/** The body was missing or unreadable. */
export const NO_REFUSAL: ProviderRefusal = { code: null, message: null, requestId: null };

// Short plain words only: they are shown, and other text might be personal data.
const code = z
  .string()
  .regex(/^[a-z0-9_]{1,64}$/)
  .nullable()
  .catch(null);
const requestId = z
  .string()
  .regex(/^[\w.:-]{1,128}$/)
  .nullable()
  .catch(null);
const message = z.string().nullable().catch(null);

/** Assumed format `{ error: { code, message }, request_id }`; code and message are also read at the top level. */
const refusalBody = z.object({
  error: z.object({ code, message }).catch({ code: null, message: null }),
  code,
  message,
  request_id: requestId,
});

const byCode: Readonly<Record<string, new (message: string, facts: AnswerFacts) => ProviderError>> = {
  invalid_api_key: InvalidApiKeyError,
  subscription_inactive: SubscriptionInactiveError,
  feature_not_available: FeatureNotAvailableError,
  order_not_found: OrderNotFoundError,
  duplicate_external_order_id: DuplicateExternalOrderIdError,
  branch_not_connected: BranchNotConnectedError,
  order_not_cancellable: OrderNotCancellableError,
  no_shift_coverage: NoShiftCoverageError,
  address_not_found: AddressRefusedError,
  address_ambiguous: AddressRefusedError,
  address_low_confidence: AddressRefusedError,
};

const UNAUTHORIZED = 401;
const NOT_FOUND = 404;
const GONE = 410;
const TOO_MANY_REQUESTS = 429;

/** Reads the body of a refused request; `value` is its JSON, or undefined if it was not JSON. */
export function readRefusal(value: unknown): ProviderRefusal {
  const result = refusalBody.safeParse(value);
  if (!result.success) return NO_REFUSAL;
  const body = result.data;
  return {
    code: body.error.code ?? body.code,
    message: body.error.message ?? body.message,
    requestId: body.request_id,
  };
}

/** `request_id` of any answer, null if there is none. */
export function readRequestId(value: unknown): string | null {
  const named = (value as { request_id?: unknown } | null | undefined)?.request_id;
  return named === undefined ? null : requestId.parse(named);
}

/**
 * The error for an unsuccessful answer. The status decides if it is sufficient: 3xx, 401, 429, 5xx, and 404 or 410 for
 * one order. Otherwise the code decides, because the spec leaves the statuses of some codes open; a 404 for another
 * path may come from any web server.
 */
export function makeRefusalError(answer: RefusedAnswer): ProviderError {
  const { status, refusal, retryAfterMs } = answer;
  const facts = { status, code: refusal.code, requestId: refusal.requestId, answer: answer.answer };
  const text = `${answer.endpoint} was refused: ${refusal.code ?? "no code"} (${describe(facts)})`;
  if (status < 400) {
    return new ProviderRedirectError(`${answer.endpoint} was redirected (${describe(facts)})`, facts, {
      fix: "set the base address (the provider's is in DELIVERY_BASE_URL) to the one that answers by itself",
    });
  }
  if (status >= 500) {
    return new ProviderUnavailableError(`${answer.endpoint} failed (${describe(facts)})`, facts, {
      reason: "server",
      ...(retryAfterMs === null ? {} : { retryAfterMs }),
    });
  }
  if (status === TOO_MANY_REQUESTS) {
    return new RateLimitedError(text, facts, { retryAfterMs: retryAfterMs ?? 0, policy: answer.policy });
  }
  if (status === UNAUTHORIZED) return new InvalidApiKeyError(text, facts);
  if (answer.namesOrder && (status === NOT_FOUND || status === GONE)) {
    return new OrderNotFoundError(text, facts);
  }
  const known =
    refusal.code !== null && Object.hasOwn(byCode, refusal.code) ? byCode[refusal.code] : undefined;
  return known === undefined ? new ProviderRefusedError(text, facts) : new known(text, facts);
}

function describe({ status, requestId: id }: AnswerFacts): string {
  return id === null ? `HTTP ${status}` : `HTTP ${status}, request ${id}`;
}
