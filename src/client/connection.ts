import { DeadlineReached } from "../runtime/lifecycle/abort.ts";
import { systemClock } from "../runtime/lifecycle/clock.ts";
import { makePrepare } from "../provider/exchange.ts";
import { readRefused, readRetryAfterMs, toUnavailable } from "../provider/exchange.ts";
import type { ProviderRequest } from "../provider/exchange.ts";
import type { SendRequest } from "../provider/transport.ts";
import { DEADLINE_MS, makeTransport } from "../provider/transport.ts";
import { makeBudget } from "../provider/budget.ts";
import { makeProviderClock } from "../provider/rate/providerClock.ts";
import { makeRetrying } from "../provider/transport.ts";

export interface ConnectionOptions {
  /** Of the mirror's web process, such as `http://127.0.0.1:3000`. */
  readonly baseUrl: string;
  /** A token of API_TOKENS. Without it: for a mirror with LOCAL_TRUST on this machine. */
  readonly token?: string | undefined;
  /** Which source to read; default that of the token. */
  readonly source?: string | undefined;
  /** Per request, in milliseconds; default 15,000. A stream only has to begin within it. */
  readonly deadlineMs?: number | undefined;
}

/** What requests to one mirror need. */
export interface Connection {
  /** Retries reads after network and server failures. */
  readonly send: SendRequest;
  /** Sends once. */
  readonly sendOnce: SendRequest;
  /** The head of an endless answer, whose body lasts until `abort` is used. Throws as `sendOnce` does. */
  open(request: ProviderRequest, abort: AbortController): Promise<Response>;
  readonly deadlineMs: number;
}

/** Throws ConfigurationError for an address or token that cannot be used in a request. */
export function connect({ baseUrl, token, source, deadlineMs = DEADLINE_MS }: ConnectionOptions): Connection {
  const clock = systemClock;
  const providerClock = makeProviderClock(clock);
  const headers = source === undefined ? {} : { "x-source": source };
  const target = { baseUrl, apiKey: token ?? null, headers };
  const prepare = makePrepare(target);
  const budget = makeBudget({ clock, limits: null });
  const logger = { debug: () => undefined };
  const sendOnce = makeTransport({ ...target, budget, clock, providerClock, logger, deadlineMs });

  async function open(request: ProviderRequest, abort: AbortController): Promise<Response> {
    const { url, init } = prepare(request);
    const late = setTimeout(() => abort.abort(new DeadlineReached("deadline reached")), deadlineMs);
    try {
      const response = await fetch(url, { ...init, signal: abort.signal });
      if (response.ok) return response;
      const retryAfterMs = readRetryAfterMs(response, providerClock);
      throw await readRefused(request, response, { retryAfterMs, refused: [] });
    } catch (error) {
      throw toUnavailable(request, { error, signal: abort.signal });
    } finally {
      clearTimeout(late);
    }
  }
  return { send: makeRetrying({ send: sendOnce, clock, random: Math.random }), sendOnce, open, deadlineMs };
}

/** A read of the mirror. */
export function get(route: string, rest: Pick<ProviderRequest, "query" | "reference"> = {}): ProviderRequest {
  return { method: "GET", route, policy: "sustained", safe: true, ...rest };
}
