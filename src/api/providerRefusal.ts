import { ConfigurationError } from "../domain/errors.ts";
import { ProviderError } from "../provider/errors.ts";
import type { RawAnswer } from "../provider/errors.ts";
import { UNSENDABLE } from "../provider/exchange.ts";
import { NO_SUCH_ADDRESS, RefusedRequestError } from "../wire/refusal.ts";

const UNAUTHORIZED = 401;
const BAD_GATEWAY = 502;
const GATEWAY_TIMEOUT = 504;

const OUTCOME_UNKNOWN =
  "Whether it happened is unknown: look for the order, by externalOrderId if it has one, before sending it again.";

/**
 * The answer to a write that the provider did not carry out: the provider's unchanged refusal, if there is one;
 * otherwise ours in the same format (spec, "Errors"). Throws errors that are not the provider's.
 */
export function refuseForProvider(error: unknown): RawAnswer | RefusedRequestError {
  if (error instanceof ConfigurationError) {
    // Names of another organization's branches belong into the log.
    const message = "The mirror's key or address for this source is not the source's own.";
    return new RefusedRequestError({ status: BAD_GATEWAY, code: "source_key_refused", message });
  }
  if (!(error instanceof ProviderError)) throw error;
  const { status, code, failure } = error;
  if (code === UNSENDABLE) return new RefusedRequestError(NO_SUCH_ADDRESS);
  if (status === UNAUTHORIZED) {
    // Forwarded unchanged it would say that the caller's own token is wrong.
    const message = "The provider does not accept the mirror's key for this source.";
    return new RefusedRequestError({ status: BAD_GATEWAY, code: "source_key_refused", message });
  }
  const answer = error.readAnswer();
  if (answer !== undefined) return answer;
  if (failure === "rate_limited") return refuseRate(error);
  if (failure === "timeout") {
    const message = `The provider did not answer in time. ${OUTCOME_UNKNOWN}`;
    return new RefusedRequestError({ status: GATEWAY_TIMEOUT, code: "provider_timeout", message });
  }
  const message = `The provider gave no usable answer. ${OUTCOME_UNKNOWN}`;
  return new RefusedRequestError({ status: BAD_GATEWAY, code: "provider_unavailable", message });
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
