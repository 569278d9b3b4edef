import type { z } from "zod";
import { UnreadableSnapshotError } from "../domain/errors.ts";
import { formatInstant } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Snapshot } from "../domain/order/order.ts";
import type {
  OrderSource,
  SourcePromises,
  SourceReadOptions,
  WindowPage,
} from "../domain/source/orderSource.ts";
import type { WalkRequest } from "../domain/window/walk.ts";
import { systemClock } from "../runtime/lifecycle/clock.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import {
  listBranchesResponseSchema,
  listOrdersResponseSchema,
  quoteResponseSchema,
  validateAddressResponseSchema,
} from "../wire/api.ts";
import type {
  CreateOrderRequest,
  ListBranchesResponse,
  ListOrdersResponse,
  QuoteResponse,
  UpdateOrderRequest,
  ValidateAddressResponse,
  WireAddress,
} from "../wire/api.ts";
import type { listParametersSchema } from "../wire/listParameters.ts";
import { orderResponseSchema, readOrderResponse } from "../wire/order.ts";
import type { WireOrder } from "../wire/order.ts";
import { readListed, readPage } from "../wire/page.ts";
import type { RawPage } from "../wire/page.ts";
import { rawElements, rawMember } from "../wire/rawJson.ts";
import { makeBudget, SPEC_LIMITS } from "./budget.ts";
import type { Budget } from "./budget.ts";
import type { RawAnswer } from "./errors.ts";
import { makeUnreadable, parseAnswer } from "./exchange.ts";
import type { ProviderAnswer, ProviderRequest } from "./exchange.ts";
import { makeProviderClock } from "./rate/providerClock.ts";
import type { ProviderClock } from "./rate/providerClock.ts";
import type { RateAnswer } from "./rateHeaders.ts";
import { makeRetrying, makeTransport } from "./transport.ts";
import type { Answered, RequestOptions, SendRequest } from "./transport.ts";
import { makeSafeWrites } from "./safeWrites.ts";

/*
 * The typed client of the provider: every endpoint of the spec. `createClient` is for programs that use this package
 * (`order-mirror/provider`), `makeProviderClient` for the mirror's own processes, which share a budget. Below it:
 * transport (turn, deadline, retries), exchange (one HTTP request), budget (rates), safeWrites (writes that are repeated
 * only after a look-up), and writes forwarded for others in forward.
 */

// A name for every type that the package's functions accept or return.
export { formatInstant, parseInstant } from "../domain/order/instant.ts";
export type { Instant } from "../domain/order/instant.ts";
export type { Snapshot } from "../domain/order/order.ts";
export type { OrderFields } from "../domain/order/orderColumns.ts";
export type {
  CreateOrderRequest,
  ListBranchesResponse,
  ListOrdersResponse,
  QuoteResponse,
  UpdateOrderRequest,
  ValidateAddressResponse,
  WireAddress,
} from "../wire/api.ts";
export type { WireOrder } from "../wire/order.ts";
export { ProviderError } from "./errors.ts";
export type { RequestOptions } from "./transport.ts";

export interface ClientOptions {
  /** Of the provider or of a mirror. */
  readonly baseUrl: string;
  /** The provider's key, or a mirror's token. */
  readonly apiKey: string;
  /** Default true: the rates of the spec. False for a mirror, whose reads have no limits. */
  readonly paced?: boolean;
  /** Per request, in milliseconds, excluding the wait for its turn; default 15,000. */
  readonly deadlineMs?: number;
}

/** A client's errors say everything; the log, with its package, is for processes. */
const logger = { debug: () => undefined };

/**
 * The typed client of the provider's API, for programs that use this package. Make one per organization and mode: it
 * counts the requests.
 *
 * Instants are nanoseconds since 1970 as bigint (`parseInstant` and `formatInstant`). Its requests throw a ProviderError;
 * createClient throws ConfigurationError for an address or key that cannot be used in a request.
 */
export function createClient({ paced = true, ...options }: ClientOptions): ProviderClient {
  const budget = makeBudget({ clock: systemClock, limits: paced ? SPEC_LIMITS : null });
  return makeProviderClient({ ...options, budget, clock: systemClock, logger });
}

type ListParameters = z.output<typeof listParametersSchema>;

/**
 * Filters of GET /v1/orders (spec). Periods are half-open: `…Since` and `…From` are inclusive, `…Until` is exclusive.
 * `updatedSince` and `updatedUntil` are given together; `limit` is 1 to 200, and the provider's default is 50.
 */
export type ListOrdersQuery = { readonly [Name in keyof ListParameters]?: ListParameters[Name] | undefined };

/** A page with the exact text of every order in it. */
export interface OrdersPage extends RawPage {
  /** The provider's time at which the request started, a lower bound. */
  readonly requestedAt: Instant;
  readonly requestId: string | null;
  /** The limits in its headers; empty if the provider sends no `RateLimit-Policy`. */
  readonly rates: RateAnswer["declared"];
  /** Parses the page as strictly as the spec describes it. Throws a ProviderError if it deviates. */
  readonly readOrders: () => ListOrdersResponse;
}

/** Branches, with the exact text of each in the same order. */
export type BranchesPage = ListBranchesResponse & { readonly raws: readonly string[] };

/** A preview, with the subscription's warning header: `past_due` or null. */
export type QuoteAnswer = QuoteResponse & { readonly subscriptionState: string | null };

/**
 * Every endpoint of the spec, typed. Each request waits for its turn in the budget; reads are retried after network and
 * server failures. Each throws a ProviderError, or the reason of the caller's signal.
 */
export interface ProviderClient extends OrderSource {
  /** POST /v1/orders. Sent again only with an `externalOrderId`, after a look-up did not find it. */
  createOrder(order: CreateOrderRequest, options?: RequestOptions): Promise<OrderAnswer>;
  /** POST /v1/orders/quote. */
  quoteOrder(order: CreateOrderRequest, options?: RequestOptions): Promise<QuoteAnswer>;
  /** GET /v1/orders/{reference}; `reference` may be an externalOrderId, here and below. */
  getOrder(reference: string, options?: RequestOptions): Promise<OrderAnswer>;
  /** GET /v1/orders: one page. */
  listOrders(query: ListOrdersQuery, options?: RequestOptions): Promise<OrdersPage>;
  /** POST /v1/orders/{reference}/cancel. Sent again only after the order was read. */
  cancelOrder(reference: string, options?: RequestOptions): Promise<OrderAnswer>;
  /** PATCH /v1/orders/{reference}. Assumed, because the spec does not show how orders are changed. Sent once. */
  updateOrder(reference: string, changes: UpdateOrderRequest, options?: RequestOptions): Promise<OrderAnswer>;
  /** POST /v1/test/orders/{reference}/advance, for test keys. Sent once: each call moves the order. */
  advanceTestOrder(reference: string, options?: RequestOptions): Promise<OrderAnswer>;
  /** POST /v1/addresses/validate. An inaccurate address is an answer, not an error. */
  validateAddress(address: WireAddress, options?: RequestOptions): Promise<ValidateAddressResponse>;
  /** GET /v1/branches. Paging is assumed to work as in GET /v1/orders. */
  listBranches(
    page?: { limit?: number | undefined; offset?: number | undefined },
    options?: RequestOptions,
  ): Promise<BranchesPage>;
  readonly providerClock: ProviderClock;
}

export interface ProviderClientDeps {
  readonly baseUrl: string;
  readonly apiKey: string;
  /** One per organization and mode, shared by all clients of this process. */
  readonly budget: Budget;
  readonly clock: Clock;
  readonly logger: Pick<Logger, "debug">;
  /** Called when a request ends, unless the caller abandoned it; must not throw. */
  readonly onAnswer?: ((answered: Answered) => void) | undefined;
  /** As in TransportDeps. */
  readonly deadlineMs?: number;
}

/** Throws ConfigurationError for a base address or key that cannot be used in a request. */
export function makeProviderClient(deps: ProviderClientDeps): ProviderClient {
  const { clock } = deps;
  const providerClock = makeProviderClock(clock);
  const once = makeTransport({ ...deps, providerClock });
  const send = makeRetrying({ send: once, clock, random: Math.random });
  const orders = makeOrderRequests(send);
  const reads = makeReads(send);
  return {
    ...orders,
    ...makeSafeWrites({ plain: orders, clock, providerClock, random: Math.random }),
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
  const page = await listOrders(query, options);
  const { hasMore, requestedAt, rates } = page;
  const elements = page.elements.map(readListed);
  return { elements, hasMore, limit: page.limit, requestedAt, rate: nameRate(rates) };
}

function nameRate(rates: OrdersPage["rates"]): string {
  const list = rates.find(({ policy }) => policy === "order-list");
  if (list !== undefined) return `${list.requestsMax} per ${list.windowMs / 1_000} s`;
  return rates.length === 0 ? "no headers" : "no order-list policy";
}

type OrderRequests = Pick<
  ProviderClient,
  "createOrder" | "getOrder" | "cancelOrder" | "updateOrder" | "advanceTestOrder"
>;

function makeOrderRequests(send: SendRequest): OrderRequests {
  const ask = async (request: ProviderRequest, options: RequestOptions = {}) =>
    readOrderAnswer(`${request.method} ${request.route}`, await send(request, options));
  const write = { method: "POST", policy: "sustained", safe: false } as const;
  return {
    createOrder: (body, options) =>
      ask({ ...write, route: "/v1/orders", policy: "geocoding", body }, options),
    getOrder: (reference, options) =>
      ask(
        { method: "GET", route: "/v1/orders/{reference}", reference, policy: "sustained", safe: true },
        options,
      ),
    cancelOrder: (reference, options) =>
      ask({ ...write, route: "/v1/orders/{reference}/cancel", reference }, options),
    updateOrder: (reference, body, options) =>
      ask({ ...write, method: "PATCH", route: "/v1/orders/{reference}", reference, body }, options),
    advanceTestOrder: (reference, options) =>
      ask({ ...write, route: "/v1/test/orders/{reference}/advance", reference }, options),
  };
}

type Reads = Pick<ProviderClient, "quoteOrder" | "listOrders" | "validateAddress" | "listBranches">;

/** The endpoints that change nothing, other than the reading of one order. */
function makeReads(send: SendRequest): Reads {
  return {
    async quoteOrder(body, options = {}) {
      const route = "/v1/orders/quote";
      const answer = await send({ method: "POST", route, body, policy: "geocoding", safe: true }, options);
      const quote = parseAnswer(quoteResponseSchema, `POST ${route}`, answer);
      return { ...quote, subscriptionState: readSubscriptionState(answer) };
    },
    async listOrders(query, options = {}) {
      const request = { method: "GET", route: "/v1/orders", policy: "order-list", safe: true } as const;
      return readOrdersPage(await send({ ...request, query: encodeQuery(query) }, options));
    },
    async validateAddress(body, options = {}) {
      const route = "/v1/addresses/validate";
      const answer = await send({ method: "POST", route, body, policy: "geocoding", safe: true }, options);
      return parseAnswer(validateAddressResponseSchema, `POST ${route}`, answer);
    },
    async listBranches(page = {}, options = {}) {
      const request = { method: "GET", route: "/v1/branches", policy: "sustained", safe: true } as const;
      const answer = await send({ ...request, query: encodeQuery(page) }, options);
      const branches = parseAnswer(listBranchesResponseSchema, "GET /v1/branches", answer);
      return { ...branches, raws: rawElements(rawMember(answer.text, "data") ?? "[]") };
    },
  };
}

function readOrdersPage(answer: ProviderAnswer): OrdersPage {
  const endpoint = "GET /v1/orders";
  const { requestedAt, requestId, rates } = answer;
  const readOrders = () => parseAnswer(listOrdersResponseSchema, endpoint, answer);
  try {
    return { ...readPage(answer), requestedAt, requestId, rates, readOrders };
  } catch (error) {
    if (error instanceof UnreadableSnapshotError) throw makeUnreadable(endpoint, answer, error.message);
    throw error;
  }
}

function encodeQuery(query: ListOrdersQuery): URLSearchParams {
  const parameters = new URLSearchParams();
  const entries = Object.entries(query) as [string, Instant | string | number | undefined][];
  for (const [name, value] of entries) {
    if (value === undefined) continue;
    parameters.set(name, typeof value === "bigint" ? formatInstant(value) : String(value));
  }
  return parameters;
}

export interface OrderAnswer {
  /** Parsed as leniently as the mirror reads, with the exact text. */
  readonly snapshot: Snapshot;
  /** The provider's time at which the request started, a lower bound. */
  readonly requestedAt: Instant;
  readonly requestId: string | null;
  /** Status, headers and text, unchanged. */
  readonly answer: RawAnswer;
  /** Value of Service-Subscription-State: `past_due`, or null in all other states (spec, "Limits"). */
  readonly subscriptionState: string | null;
  /** Parses the order as strictly as the spec describes it. Throws a ProviderError if it deviates. */
  readonly readOrder: () => WireOrder;
}

/** Throws a ProviderError if the answer is not an order. `endpoint` is for example `POST /v1/orders`. */
export function readOrderAnswer(endpoint: string, answer: ProviderAnswer): OrderAnswer {
  return {
    snapshot: readSnapshotOf(endpoint, answer),
    requestedAt: answer.requestedAt,
    requestId: answer.requestId,
    answer,
    subscriptionState: readSubscriptionState(answer),
    readOrder: () => parseAnswer(orderResponseSchema, endpoint, answer),
  };
}

function readSubscriptionState({ headers }: ProviderAnswer): string | null {
  return headers.get("service-subscription-state");
}

function readSnapshotOf(endpoint: string, answer: ProviderAnswer): Snapshot {
  // readOrderResponse expects the text of an object.
  if (typeof answer.value !== "object" || answer.value === null || Array.isArray(answer.value)) {
    throw makeUnreadable(endpoint, answer, "not an object");
  }
  try {
    return readOrderResponse(answer.text);
  } catch (error) {
    if (error instanceof UnreadableSnapshotError) throw makeUnreadable(endpoint, answer, error.message);
    throw error;
  }
}
