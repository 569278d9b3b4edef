import type { SourceReadOptions } from "../domain/source/orderSource.ts";
import { withDeadline } from "../process/abort.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import type { Budget, Learn, PolicyName } from "./budget.ts";
import { ProviderError } from "./errors.ts";
import {
  describeEndpoint,
  makeExchange,
  makePrepare,
  type ProviderAnswer,
  type ProviderRequest,
  type Target,
} from "./exchange.ts";
import type { ProviderClock } from "./providerClock.ts";

// Sends requests: each waits for its turn in the budget, ends at its deadline, and is sent again only where that is
// safe.

export interface RequestOptions extends SourceReadOptions {
  /** Milliseconds beyond the deadline that an answer may take, because the request asks for a wait; default 0. */
  readonly waitMs?: number | undefined;
  /** Abandons the wait for a turn in the budget, but nothing that was sent. */
  readonly turnSignal?: AbortSignal | undefined;
}

/** Sends a request. Throws a ProviderError, or the reason of the caller's signal. */
export type SendRequest = (request: ProviderRequest, options: RequestOptions) => Promise<ProviderAnswer>;

export interface Answered {
  /** The method and route, such as `GET /v1/orders/{reference}`, without the order's name. */
  readonly endpoint: string;
  /** The narrowest rate policy that it counts against; each counts against `sustained` as well. */
  readonly policy: PolicyName;
  /** Null when there was no answer. */
  readonly status: number | null;
}

export interface TransportDeps extends Target {
  /** The budget of the organization and mode, shared by all clients of this process. */
  readonly budget: Budget;
  readonly clock: Clock;
  readonly logger: Pick<Logger, "debug">;
  /** From the start of a request to the end of its body, excluding the wait for the budget; default DEADLINE_MS. */
  readonly deadlineMs?: number;
  /** Called when a request ends, unless the caller abandoned it; must not throw. */
  readonly onAnswer?: ((answered: Answered) => void) | undefined;
}

export const DEADLINE_MS = 15_000;
/** First sending included; RequestOptions may ask for fewer. */
const ATTEMPTS_MAX = 4;
const BACKOFF_BASE_MS = 500;
const BACKOFF_MAX_MS = 8_000;
/** A provider that asks for a longer delay gets it, but from the caller's next attempt: nobody should hang here. */
const DELAY_MAX_MS = 30_000;

/** Sends once. Throws ConfigurationError for a base address or key that cannot be used in a request. */
export function makeTransport(deps: TransportDeps & { readonly providerClock: ProviderClock }): SendRequest {
  const { budget, clock, logger, deadlineMs = DEADLINE_MS } = deps;
  const prepare = makePrepare(deps);
  const { exchange } = makeExchange(deps);

  return async function send(request, options) {
    const { priority = "poll", signal, turnSignal = signal, waitMs = 0 } = options;
    const prepared = prepare(request);
    const sendNow = async (learn: Learn) => {
      const startedAtMs = clock.monotonicMs();
      const note = (outcome: string, status: number | null) => {
        const durationMs = Math.round(clock.monotonicMs() - startedAtMs);
        const { method, route } = request;
        logger.debug({ method, route, priority, outcome, duration_ms: durationMs }, "asked the provider");
        deps.onAnswer?.({ endpoint: describeEndpoint(request), policy: request.policy, status });
      };
      try {
        const answer = await withDeadline({ deadlineMs: deadlineMs + waitMs, signal }, (abortable) =>
          exchange({ prepared, learn, signal: abortable }),
        );
        note("answered", answer.status);
        return answer;
      } catch (error) {
        // The caller gave up: not the provider's failure, and never retried.
        signal?.throwIfAborted();
        if (error instanceof ProviderError) note(error.code ?? error.failure, error.status);
        throw error;
      }
    };
    return budget.run({ policy: request.policy, priority, signal: turnSignal }, sendNow);
  };
}

/**
 * Sends again, up to ATTEMPTS_MAX times: after a 429 anything, as it was not done; after a failed connection, a
 * timeout or a 5xx only what is safe. Never after an abort, another refusal, or an unreadable success.
 */
export function makeRetrying({ send, clock }: { send: SendRequest; clock: Clock }): SendRequest {
  return async function sendPersistently(request, options) {
    const { attemptsMax = ATTEMPTS_MAX } = options;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await send(request, options);
      } catch (error) {
        const delayMs = retryDelayMs(error, { request, attempt });
        if (delayMs === null || attempt >= attemptsMax) throw error;
        await clock.sleep(delayMs, options.signal);
      }
    }
  };
}

/** Half to all of a delay that doubles with each attempt (1, 2, ...). */
export function backoffMs(attempt: number): number {
  const fullMs = Math.min(BACKOFF_BASE_MS * 2 ** (attempt - 1), BACKOFF_MAX_MS);
  return fullMs * (0.5 + Math.random() / 2);
}

function retryDelayMs(
  error: unknown,
  { request, attempt }: { request: ProviderRequest; attempt: number },
): number | null {
  if (!(error instanceof ProviderError)) return null;
  const askedMs = typeof error.retry === "object" ? error.retry.afterMs : 0;
  if (askedMs > DELAY_MAX_MS) return null;
  if (error.failure === "rate_limited") return askedMs;
  const isTransient = error.failure === "timeout" || error.failure === "unavailable";
  return isTransient && request.safe ? Math.max(askedMs, backoffMs(attempt)) : null;
}
