import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { ProviderUnavailableError, RateLimitedError } from "../errors.ts";
import type { ProviderRequest, SendRequest } from "../http/request.ts";

/** First sending included; RequestOptions may ask for fewer. */
export const ATTEMPTS_MAX = 4;
const BACKOFF_BASE_MS = 500;
const BACKOFF_MAX_MS = 8_000;
/** A provider that asks for a longer wait gets it, but from the caller's next attempt: nobody should hang here. */
const WAIT_MAX_MS = 30_000;

/**
 * Sends again, up to ATTEMPTS_MAX times: after a 429 anything, as it was not done; after a failed connection, a
 * timeout or a 5xx only what is safe. Never after an abort, another refusal, or an unreadable success.
 */
export function makeRetrying(deps: { send: SendRequest; clock: Clock; random: () => number }): SendRequest {
  const { send, clock, random } = deps;
  return async function sendPersistently(request, options) {
    const { attemptsMax = ATTEMPTS_MAX } = options;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await send(request, options);
      } catch (error) {
        const delayMs = retryDelayMs(error, { request, attempt, random });
        if (delayMs === null || attempt >= attemptsMax) throw error;
        await clock.sleep(delayMs, options.signal);
      }
    }
  };
}

/** Half to all of a wait that doubles with each attempt (1, 2, ...); `random` yields [0, 1). */
export function backoffMs(attempt: number, random: () => number): number {
  const fullMs = Math.min(BACKOFF_BASE_MS * 2 ** (attempt - 1), BACKOFF_MAX_MS);
  return fullMs * (0.5 + random() / 2);
}

function retryDelayMs(
  error: unknown,
  { request, attempt, random }: { request: ProviderRequest; attempt: number; random: () => number },
): number | null {
  if (error instanceof RateLimitedError) {
    // No wait here: the budget has learnt of the refusal and lets nobody pass before its end.
    return error.retryAfterMs <= WAIT_MAX_MS ? 0 : null;
  }
  const isTransient = error instanceof ProviderUnavailableError && error.reason !== "unreadable";
  if (!isTransient || !request.safe) return null;
  const askedMs = typeof error.retry === "object" ? error.retry.afterMs : 0;
  return askedMs <= WAIT_MAX_MS ? Math.max(askedMs, backoffMs(attempt, random)) : null;
}
