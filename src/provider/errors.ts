import { OrderMirrorError } from "../domain/errors.ts";
import type { Retry } from "../domain/errors.ts";
import { SourceError } from "../domain/source/errors.ts";
import type { SourceFailure } from "../domain/source/errors.ts";

/** An unchanged answer, for forwarding. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** What is known about the answer behind an error. Status and code are null if there was none. */
export interface AnswerFacts {
  readonly status: number | null;
  readonly code: string | null;
  readonly requestId: string | null;
  /** Only if there was an answer with a JSON body. */
  readonly answer?: RawAnswer | undefined;
}

/**
 * Base class of everything that the provider client throws for a request. The message contains the endpoint, the status
 * and the code, but no text from a body and no reference: those may be personal data.
 */
export abstract class ProviderError extends SourceError {
  readonly failure: SourceFailure = "refused";
  readonly retry: Retry = "never";
  readonly status: number | null;
  readonly code: string | null;
  readonly requestId: string | null;
  /** Private, so that no log or inspection shows it. */
  readonly #answer: RawAnswer | undefined;

  constructor(message: string, facts: AnswerFacts, options: { cause?: unknown; fix?: string } = {}) {
    super(message, options);
    this.#answer = facts.answer;
    this.status = facts.status;
    this.code = facts.code;
    this.requestId = facts.requestId;
  }

  /** The provider's refusal, including personal data: forward it to the caller, but never log it. */
  readAnswer(): RawAnswer | undefined {
    return this.#answer;
  }
}

/** 401: the key is missing or unknown. */
export class InvalidApiKeyError extends ProviderError {
  override readonly name = "InvalidApiKeyError";
  override readonly failure = "key_refused";
}

/** 402: the subscription is unpaid or canceled; reads still work. */
export class SubscriptionInactiveError extends ProviderError {
  override readonly name = "SubscriptionInactiveError";
}

/** 403: the plan lacks the feature. */
export class FeatureNotAvailableError extends ProviderError {
  override readonly name = "FeatureNotAvailableError";
}

/**
 * 404 or 410 for one order, whatever the body: unknown, removed, of the other mode or of another organization. `code`
 * is null if only the status says so, which a proxy may also do.
 */
export class OrderNotFoundError extends ProviderError {
  override readonly name = "OrderNotFoundError";
  override readonly failure = "not_found";
}

/** 409: an order with this externalOrderId exists already. */
export class DuplicateExternalOrderIdError extends ProviderError {
  override readonly name = "DuplicateExternalOrderIdError";
}

/** 422: the branch has no primary connection to a fleet zone. */
export class BranchNotConnectedError extends ProviderError {
  override readonly name = "BranchNotConnectedError";
}

/** 422: past the last status in which the business can cancel, or already cancelled. */
export class OrderNotCancellableError extends ProviderError {
  override readonly name = "OrderNotCancellableError";
}

/** No courier shift covers the order. */
export class NoShiftCoverageError extends ProviderError {
  override readonly name = "NoShiftCoverageError";
}

/** `address_not_found`, `address_ambiguous` or `address_low_confidence`: see `code`. */
export class AddressRefusedError extends ProviderError {
  override readonly name = "AddressRefusedError";
}

/** 429, or not sent because its turn is too far away. `policy` is the exceeded policy, null if it is unknown. */
export class RateLimitedError extends ProviderError {
  override readonly name = "RateLimitedError";
  override readonly failure = "rate_limited";
  override readonly retry: Retry;
  readonly retryAfterMs: number;
  readonly policy: string | null;

  constructor(
    message: string,
    facts: AnswerFacts,
    { retryAfterMs, policy }: { retryAfterMs: number; policy: string | null },
  ) {
    super(message, facts);
    this.retryAfterMs = retryAfterMs;
    this.policy = policy;
    this.retry = { afterMs: retryAfterMs };
  }
}

/** Any other 4xx, or one whose body has no readable code. */
export class ProviderRefusedError extends ProviderError {
  override readonly name = "ProviderRefusedError";
}

/** A 3xx: following it would hand the API key to another address. */
export class ProviderRedirectError extends ProviderError {
  override readonly name = "ProviderRedirectError";
}

/**
 * Why there is no usable answer: `network` (none, or cut off), `timeout` (incomplete at the deadline), `server` (5xx),
 * `unreadable` (a success that is not JSON, too large, or not as in the spec).
 */
export type Unavailability = "network" | "timeout" | "server" | "unreadable";

/** The provider gave no usable answer. Whether it did what was asked is unknown. */
export class ProviderUnavailableError extends ProviderError {
  override readonly name = "ProviderUnavailableError";
  override readonly retry: Retry;
  override readonly failure: SourceFailure;
  readonly reason: Unavailability;

  constructor(
    message: string,
    facts: AnswerFacts,
    options: { reason: Unavailability; retryAfterMs?: number; cause?: unknown },
  ) {
    super(message, facts, options);
    this.reason = options.reason;
    const { reason } = options;
    this.failure = reason === "timeout" || reason === "unreadable" ? reason : "unavailable";
    this.retry = options.retryAfterMs === undefined ? "later" : { afterMs: options.retryAfterMs };
  }
}

/** A reference that cannot be part of a path: empty, `.`, `..`, or malformed text. Nothing was sent. */
export class InvalidReferenceError extends OrderMirrorError {
  override readonly name = "InvalidReferenceError";
  override readonly retry = "never";
}
