import type { z } from "zod";
import { UnreadableSnapshotError } from "../domain/errors.ts";
import { formatInstant, type Instant } from "../domain/order/instant.ts";
import type { Snapshot } from "../domain/order/order.ts";
import type {
  OrderSource,
  SourcePromises,
  SourceReadOptions,
  WindowPage,
} from "../domain/source/orderSource.ts";
import type { WalkRequest } from "../domain/window/walk.ts";
import { systemClock } from "../process/clock.ts";
import {
  listBranchesResponseSchema,
  listOrdersResponseSchema,
  quoteResponseSchema,
  validateAddressResponseSchema,
} from "../wire/api.ts";
import type * as api from "../wire/api.ts";
import type { listParametersSchema } from "../wire/listParameters.ts";
import {
  orderResponseSchema,
  readOrderResponse,
  type WireOrder,
  readListed,
  readPage,
  type RawPage,
} from "../wire/order.ts";
import { rawElements, rawMember } from "../wire/rawJson.ts";
import { makeBudget, SPEC_LIMITS } from "./budget.ts";
import { makeUnreadable, parseAnswer, type ProviderAnswer, type ProviderRequest } from "./exchange.ts";
import { makeProviderClock, type ProviderClock } from "./providerClock.ts";
import {
  makeRetrying,
  makeTransport,
  type RequestOptions,
  type SendRequest,
  type TransportDeps,
} from "./transport.ts";

/*
 * The typed client of the provider: every endpoint of the spec. `createClient` is for programs that use this package
 * (`order-mirror/provider`), `makeProviderClient` for the mirror's own processes, which share a budget. Below it:
 * transport (turn, deadline, retries, and writes forwarded for others), exchange (one HTTP request), budget (rates).
 */

// A name for every type that the package's functions accept or return.
export { formatInstant, parseInstant } from "../domain/order/instant.ts";
export type { Instant } from "../domain/order/instant.ts";
export type { Snapshot } from "../domain/order/order.ts";
export type { OrderFields } from "../domain/order/orderColumns.ts";
export type * from "../wire/api.ts";
export type { WireOrder } from "../wire/order.ts";
export { ProviderError } from "./errors.ts";
export type { RequestOptions } from "./transport.ts";

export interface ClientOptions {
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Per request, in milliseconds, excluding the wait for its turn; default 15,000. */
  readonly deadlineMs?: number;
}

/**
 * The typed client of the provider's API, for programs that use this package. Make one per organization and mode: it
 * keeps within the rates of the spec.
 *
 * Instants are nanoseconds since 1970 as bigint (`parseInstant` and `formatInstant`). Its requests throw a ProviderError;
 * createClient throws ConfigurationError for an address or key that cannot be used in a request.
 */
export function createClient(options: ClientOptions): ProviderClient {
  const clock = systemClock;
  // Its errors say everything; the log, with its package, is for processes.
  const logger = { debug: () => undefined };
  return makeProviderClient({ ...options, budget: makeBudget({ clock }), clock, logger });
}

type ListParameters = z.output<typeof listParametersSchema>;

/**
 * Filters of GET /v1/orders (spec). Periods are half-open: `…Since` and `…From` are inclusive, `…Until` is exclusive.
 * `updatedSince` and `updatedUntil` are given together; `limit` is 1 to 200, and the provider's default is 50.
 */
export type ListOrdersQuery = { readonly [Name in keyof ListParameters]?: ListParameters[Name] | undefined };

interface Answer {
  /** The provider's time at which the request started, a lower bound. */
  readonly requestedAt: Instant;
  readonly requestId: string | null;
}

/** A page with the exact text of every order in it. */
export interface OrdersPage extends RawPage, Answer {
  /** Parses the page as strictly as the spec describes it. Throws a ProviderError if it deviates. */
  readonly readOrders: () => api.ListOrdersResponse;
}

export interface OrderAnswer extends Answer {
  /** Parsed as leniently as the mirror reads, with the exact text. */
  readonly snapshot: Snapshot;
  /** Value of Service-Subscription-State: `past_due`, or null in all other states (spec, "Limits"). */
  readonly subscriptionState: string | null;
  /** Parses the order as strictly as the spec describes it. Throws a ProviderError if it deviates. */
  readonly readOrder: () => WireOrder;
}

/** Branches, with the exact text of each in the same order. */
export type BranchesPage = api.ListBranchesResponse & { readonly raws: readonly string[] };

/** A preview, with the subscription's warning header: `past_due` or null. */
export type QuoteAnswer = api.QuoteResponse & Pick<OrderAnswer, "subscriptionState">;

/**
 * Every endpoint of the spec, typed. Each request waits for its turn in the budget; after network and server failures
 * reads are sent again, writes never: look the order up first. Each throws a ProviderError, or the reason of the
 * caller's signal. `reference` may be an externalOrderId.
 */
export interface ProviderClient extends OrderSource {
  /** POST /v1/orders. */
  createOrder(order: api.CreateOrderRequest, options?: RequestOptions): Promise<OrderAnswer>;
  /** POST /v1/orders/quote. */
  quoteOrder(order: api.CreateOrderRequest, options?: RequestOptions): Promise<QuoteAnswer>;
  /** GET /v1/orders/{reference}. */
  getOrder(reference: string, options?: RequestOptions): Promise<OrderAnswer>;
  /** GET /v1/orders: one page. */
  listOrders(query: ListOrdersQuery, options?: RequestOptions): Promise<OrdersPage>;
  /** POST /v1/orders/{reference}/cancel. */
  cancelOrder(reference: string, options?: RequestOptions): Promise<OrderAnswer>;
  /** PATCH /v1/orders/{reference}. Assumed, because the spec does not show how orders are changed. */
  updateOrder(
    reference: string,
    changes: api.UpdateOrderRequest,
    options?: RequestOptions,
  ): Promise<OrderAnswer>;
  /** POST /v1/test/orders/{reference}/advance, for test keys. */
  advanceTestOrder(reference: string, options?: RequestOptions): Promise<OrderAnswer>;
  /** POST /v1/addresses/validate. An inaccurate address is an answer, not an error. */
  validateAddress(address: api.WireAddress, options?: RequestOptions): Promise<api.ValidateAddressResponse>;
  /** GET /v1/branches. Paging is assumed to work as in GET /v1/orders. */
  listBranches(
    page?: { limit?: number | undefined; offset?: number | undefined },
    options?: RequestOptions,
  ): Promise<BranchesPage>;
  readonly providerClock: ProviderClock;
}

export type ProviderClientDeps = TransportDeps & { readonly apiKey: string };

/** Throws ConfigurationError for a base address or key that cannot be used in a request. */
export function makeProviderClient(deps: ProviderClientDeps): ProviderClient {
  const { clock } = deps;
  const providerClock = makeProviderClock(clock);
  const send = makeRetrying({ send: makeTransport({ ...deps, providerClock }), clock });
  const reads = makeReads(send);
  return {
    ...makeOrderRequests(send),
    ...reads,
    listWindow: (request, options) => listWindow(reads, request, options),
    promises: PROMISES,
    providerClock,
  };
}

/** The spec's maximum ("GET /v1/orders"), and its window ("Limits"). */
const PROMISES: SourcePromises = { pageRowsMax: 200, rateWindowMs: SPEC_LIMITS["order-list"].windowMs };

async function listWindow(
  { listOrders }: Pick<ProviderClient, "listOrders">,
  { since: updatedSince, until: updatedUntil, limit, offset }: WalkRequest,
  options?: SourceReadOptions,
): Promise<WindowPage> {
  const query = { updatedSince, updatedUntil, limit, offset, sort: "updatedAt" } as const;
  const { elements, ...page } = await listOrders(query, options);
  return { ...page, elements: elements.map(readListed) };
}

/** The endpoints that answer with one order. */
function makeOrderRequests(send: SendRequest) {
  const ask = async (request: ProviderRequest, options: RequestOptions = {}) =>
    readOrderAnswer(`${request.method} ${request.route}`, await send(request, options));
  const write = { method: "POST", policy: "sustained", safe: false } as const;
  const one = { route: "/v1/orders/{reference}", policy: "sustained" } as const;
  return {
    createOrder: (body, options) =>
      ask({ ...write, route: "/v1/orders", policy: "geocoding", body }, options),
    getOrder: (reference, options) => ask({ ...one, method: "GET", reference, safe: true }, options),
    cancelOrder: (reference, options) =>
      ask({ ...write, route: "/v1/orders/{reference}/cancel", reference }, options),
    updateOrder: (reference, body, options) =>
      ask({ ...one, method: "PATCH", reference, body, safe: false }, options),
    advanceTestOrder: (reference, options) =>
      ask({ ...write, route: "/v1/test/orders/{reference}/advance", reference }, options),
  } satisfies Partial<ProviderClient>;
}

/** The endpoints that change nothing, other than the reading of one order. */
function makeReads(send: SendRequest) {
  const geocode = { method: "POST", policy: "geocoding", safe: true } as const;
  return {
    async quoteOrder(body, options = {}) {
      const route = "/v1/orders/quote";
      const answer = await send({ ...geocode, route, body }, options);
      const quote = parseAnswer(quoteResponseSchema, `POST ${route}`, answer);
      return { ...quote, subscriptionState: readSubscriptionState(answer) };
    },
    async listOrders(query, options = {}) {
      const request = { method: "GET", route: "/v1/orders", policy: "order-list", safe: true } as const;
      return readOrdersPage(await send({ ...request, query: encodeQuery(query) }, options));
    },
    async validateAddress(body, options = {}) {
      const route = "/v1/addresses/validate";
      const answer = await send({ ...geocode, route, body }, options);
      return parseAnswer(validateAddressResponseSchema, `POST ${route}`, answer);
    },
    async listBranches(page = {}, options = {}) {
      const request = { method: "GET", route: "/v1/branches", policy: "sustained", safe: true } as const;
      const answer = await send({ ...request, query: encodeQuery(page) }, options);
      const branches = parseAnswer(listBranchesResponseSchema, "GET /v1/branches", answer);
      return { ...branches, raws: rawElements(rawMember(answer.text, "data") ?? "[]") };
    },
  } satisfies Partial<ProviderClient>;
}

function readOrdersPage(answer: ProviderAnswer): OrdersPage {
  const endpoint = "GET /v1/orders";
  const { requestedAt, requestId } = answer;
  const readOrders = () => parseAnswer(listOrdersResponseSchema, endpoint, answer);
  const page = refuseUnreadable(endpoint, answer, () => readPage(answer));
  return { ...page, requestedAt, requestId, readOrders };
}

function readOrderAnswer(endpoint: string, answer: ProviderAnswer): OrderAnswer {
  const { requestedAt, requestId, value, text } = answer;
  // readOrderResponse expects the text of an object.
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw makeUnreadable(endpoint, answer, "not an object");
  return {
    snapshot: refuseUnreadable(endpoint, answer, () => readOrderResponse(text)),
    requestedAt,
    requestId,
    subscriptionState: readSubscriptionState(answer),
    readOrder: () => parseAnswer(orderResponseSchema, endpoint, answer),
  };
}

function refuseUnreadable<Result>(endpoint: string, answer: ProviderAnswer, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (error instanceof UnreadableSnapshotError) throw makeUnreadable(endpoint, answer, error.message);
    throw error;
  }
}

function readSubscriptionState({ headers }: ProviderAnswer): string | null {
  return headers.get("service-subscription-state");
}

function encodeQuery(query: ListOrdersQuery): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    parameters.set(name, typeof value === "bigint" ? formatInstant(value) : String(value));
  }
  return parameters;
}
