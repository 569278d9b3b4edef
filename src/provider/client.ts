import { UnreadableSnapshotError } from "../domain/errors.ts";
import { formatInstant } from "../domain/order/instant.ts";
import type { OrderSource } from "../domain/source/orderSource.ts";
import { branchPageSchema } from "../wire/api.ts";
import { readListed, readOrderResponse, readPage } from "../wire/order.ts";
import { rawElements, rawMember } from "../wire/rawJson.ts";
import { SPEC_LIMITS } from "./budget.ts";
import { makeUnreadable, parseAnswer, type ProviderAnswer } from "./exchange.ts";
import { makeProviderClock, type ProviderClock } from "./providerClock.ts";
import { makeRetrying, makeTransport, type RequestOptions, type TransportDeps } from "./transport.ts";

/*
 * The client of the provider: what the mirror's processes ask it for. Below it: transport (turn, deadline, retries),
 * exchange (one HTTP request), budget (rates).
 */

export type ProviderClientDeps = TransportDeps & { readonly apiKey: string };

/** The spec's maximum ("GET /v1/orders"), and its window ("Limits"). */
const PROMISES = { pageRowsMax: 200, rateWindowMs: SPEC_LIMITS["order-list"].windowMs };

/**
 * Makes the reads of the provider. Each request waits for its turn in the budget, and is sent again after network and
 * server failures. Each throws a ProviderError, or the reason of the caller's signal. Throws ConfigurationError for a
 * base address or key that cannot be used in a request.
 */
export function makeProviderClient(deps: ProviderClientDeps) {
  const { clock } = deps;
  const providerClock: ProviderClock = makeProviderClock(clock);
  const send = makeRetrying({ send: makeTransport({ ...deps, providerClock }), clock });
  return {
    promises: PROMISES,
    providerClock,
    /** GET /v1/orders/{reference}, parsed as leniently as the mirror reads. `reference` may be an externalOrderId. */
    async getOrder(reference: string, options: RequestOptions = {}) {
      const route = "/v1/orders/{reference}";
      const request = { method: "GET", route, policy: "sustained", reference, safe: true } as const;
      const answer = await send(request, options);
      return { snapshot: readOrderAnswer(`GET ${route}`, answer), requestedAt: answer.requestedAt };
    },
    /** GET /v1/orders: one page of a window. */
    async listWindow({ since, until, limit, offset }, options: RequestOptions = {}) {
      const request = { method: "GET", route: "/v1/orders", policy: "order-list", safe: true } as const;
      const query = new URLSearchParams({
        updatedSince: formatInstant(since),
        updatedUntil: formatInstant(until),
        limit: String(limit),
        offset: String(offset),
        sort: "updatedAt",
      });
      const answer = await send({ ...request, query }, options);
      const { elements, ...page } = refuseUnreadable("GET /v1/orders", answer, () => readPage(answer));
      return { ...page, elements: elements.map(readListed), requestedAt: answer.requestedAt };
    },
    /** GET /v1/branches, with the exact text of each. Paging is assumed to work as in GET /v1/orders. */
    async listBranches(page = {}, options: RequestOptions = {}) {
      const request = { method: "GET", route: "/v1/branches", policy: "sustained", safe: true } as const;
      const query = new URLSearchParams(
        Object.entries(page).map(([name, value]): [string, string] => [name, String(value)]),
      );
      const answer = await send({ ...request, query }, options);
      const branches = parseAnswer(branchPageSchema, "GET /v1/branches", answer);
      return { ...branches, raws: rawElements(rawMember(answer.text, "data") ?? "[]") };
    },
  } satisfies OrderSource;
}

function readOrderAnswer(endpoint: string, answer: ProviderAnswer) {
  const { value, text } = answer;
  // readOrderResponse expects the text of an object.
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw makeUnreadable(endpoint, answer, "not an object");
  return refuseUnreadable(endpoint, answer, () => readOrderResponse(text));
}

function refuseUnreadable<Result>(endpoint: string, answer: ProviderAnswer, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (error instanceof UnreadableSnapshotError) throw makeUnreadable(endpoint, answer, error.message);
    throw error;
  }
}
