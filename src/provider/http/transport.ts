import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { makePrepare } from "./address.ts";
import type { Budget } from "../rate/budget.ts";
import { withDeadline } from "../../runtime/lifecycle/abort.ts";
import { ProviderError } from "../errors.ts";
import { makeExchange, toUnavailable } from "./exchange.ts";
import type { ProviderClock } from "../rate/providerClock.ts";
import { describeEndpoint } from "./request.ts";
import type { Answered, SendRequest } from "./request.ts";

export interface TransportDeps {
  readonly baseUrl: string;
  /** Null: see makePrepare. */
  readonly apiKey: string | null;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly budget: Budget;
  readonly clock: Clock;
  readonly providerClock: ProviderClock;
  readonly logger: Pick<Logger, "debug">;
  /** From the start of a request to the end of its body, excluding the wait for the budget; default DEADLINE_MS. */
  readonly deadlineMs?: number;
  /** Called when a request ends, unless the caller abandoned it; must not throw. */
  readonly onAnswer?: ((answered: Answered) => void) | undefined;
}

export const DEADLINE_MS = 15_000;

/** Throws ConfigurationError for a base address or key that cannot be used in a request. */
export function makeTransport(deps: TransportDeps): SendRequest {
  const { budget, clock, providerClock, logger, deadlineMs = DEADLINE_MS } = deps;
  const prepare = makePrepare(deps);
  const exchange = makeExchange({ clock, providerClock });

  return async function send(request, options) {
    const { priority = "poll", signal, turnSignal = signal } = options;
    const prepared = prepare(request);
    const permit = await budget.acquire({ policy: request.policy, priority, signal: turnSignal });
    const startedAtMs = clock.monotonicMs();
    const log = (outcome: string) => {
      const durationMs = Math.round(clock.monotonicMs() - startedAtMs);
      const { method, route } = request;
      logger.debug({ method, route, priority, outcome, duration_ms: durationMs }, "asked the provider");
    };
    try {
      const answer = await withDeadline({ deadlineMs, signal }, async (abortable) => {
        try {
          return await exchange({ request, prepared, permit, signal: abortable });
        } catch (error) {
          throw toUnavailable(request, { status: null, error, signal: abortable });
        }
      });
      log("answered");
      deps.onAnswer?.({ endpoint: describeEndpoint(request), status: answer.status });
      return answer;
    } catch (error) {
      // The caller gave up: not the provider's failure, and never retried.
      signal?.throwIfAborted();
      log(error instanceof ProviderError ? (error.code ?? error.name) : "failed");
      const status = error instanceof ProviderError ? error.status : null;
      deps.onAnswer?.({ endpoint: describeEndpoint(request), status });
      throw error;
    } finally {
      permit.release();
    }
  };
}
