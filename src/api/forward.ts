import type { Instant } from "../domain/order/instant.ts";
import { DeadlineReached, withDeadline } from "../process/abort.ts";
import { ProviderError, type RawAnswer } from "../provider/errors.ts";
import type { ProviderRequest } from "../provider/exchange.ts";
import { makeProviderClock } from "../provider/providerClock.ts";
import { makeRetrying, makeTransport, type TransportDeps } from "../provider/transport.ts";

/** A request from a client, to be sent with our key. */
export interface ForwardedRequest {
  readonly method: "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path and query, unchanged, from `/v1/` on. */
  readonly path: string;
  readonly bytes?: Uint8Array | undefined;
  /** Aborted: the request is no longer sent. Once sent, it is completed. */
  readonly gone: AbortSignal;
}

export interface ForwardedAnswer extends RawAnswer {
  /** The provider's time at which the request started, a lower bound. */
  readonly requestedAt: Instant;
}

/**
 * Sends the request within the budget, and returns the provider's unchanged answer if it is a success. It is sent once,
 * and again only after a short 429 (quotes and address checks also after other failures): whoever sent it decides on
 * the rest, as with the provider itself. Throws a ProviderError: without an answer if its turn is too far away or the
 * path leads elsewhere, otherwise with the provider's refusal, if there was one. Throws the reason of `gone` if that is
 * aborted before the request is sent.
 */
export type Forward = (request: ForwardedRequest) => Promise<ForwardedAnswer>;

/** A caller has its own timeout, and often a person is waiting. */
const TURN_MAX_MS = 5_000;

/** Narrower policies than `sustained` (spec, "Endpoints"), and which of these endpoints change nothing. */
const NARROW: Readonly<Record<string, Pick<ProviderRequest, "policy" | "safe">>> = {
  "/v1/orders": { policy: "geocoding", safe: false },
  "/v1/orders/quote": { policy: "geocoding", safe: true },
  "/v1/addresses/validate": { policy: "geocoding", safe: true },
};

/** Throws ConfigurationError for a base address or key that no request can carry. */
export function makeForward(deps: TransportDeps): Forward {
  const { clock } = deps;
  const send = makeRetrying({
    send: makeTransport({ ...deps, providerClock: makeProviderClock(clock) }),
    clock,
  });
  return async function forward({ method, path, bytes, gone }) {
    const [route = ""] = path.split("?");
    const known = method === "POST" && Object.hasOwn(NARROW, route) ? NARROW[route] : undefined;
    // Errors and log lines show the route, so a path that may name an order is not shown.
    const request = {
      route: known ? route : "/v1/{other}",
      policy: "sustained",
      safe: false,
      ...known,
    } as const;
    const turn = { deadlineMs: TURN_MAX_MS, signal: gone };
    try {
      return await withDeadline(turn, (turnSignal) =>
        send({ ...request, method, path, bytes }, { turnSignal }),
      );
    } catch (error) {
      if (!(error instanceof DeadlineReached)) throw error;
      const { route: shown, policy } = request;
      const text = `${method} ${shown} was not sent: its turn is too far away`;
      const facts = { code: "rate_limit_exceeded", policy, retry: { afterMs: TURN_MAX_MS } };
      throw new ProviderError(text, { failure: "rate_limited", ...facts });
    }
  };
}
