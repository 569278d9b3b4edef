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
import { listBranchesResponseSchema } from "../wire/api.ts";
import type { listParametersSchema } from "../wire/listParameters.ts";
import { readListed, readOrderResponse, readPage, type RawPage } from "../wire/order.ts";
import { rawElements, rawMember } from "../wire/rawJson.ts";
import { SPEC_LIMITS } from "./budget.ts";
import { makeUnreadable, parseAnswer, type ProviderAnswer } from "./exchange.ts";
import { makeProviderClock, type ProviderClock } from "./providerClock.ts";
import {
  makeRetrying,
  makeTransport,
  type RequestOptions,
  type SendRequest,
  type TransportDeps,
} from "./transport.ts";

/*
 * The client of the provider: what the mirror's processes ask it for. Below it: transport (turn, deadline, retries),
 * exchange (one HTTP request), budget (rates).
 */

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
export type OrdersPage = RawPage & Answer;

export interface OrderAnswer extends Answer {
  /** Parsed as leniently as the mirror reads, with the exact text. */
  readonly snapshot: Snapshot;
}

/**
 * Reads of the provider. Each request waits for its turn in the budget, and is sent again after network and server
 * failures. Each throws a ProviderError, or the reason of the caller's signal. `reference` may be an externalOrderId.
 */
export type ProviderClient = ReturnType<typeof makeReads> &
  OrderSource & { readonly providerClock: ProviderClock };

export type ProviderClientDeps = TransportDeps & { readonly apiKey: string };

/** Throws ConfigurationError for a base address or key that cannot be used in a request. */
export function makeProviderClient(deps: ProviderClientDeps): ProviderClient {
  const { clock } = deps;
  const providerClock = makeProviderClock(clock);
  const send = makeRetrying({ send: makeTransport({ ...deps, providerClock }), clock });
  const reads = makeReads(send);
  return {
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

function makeReads(send: SendRequest) {
  return {
    /** GET /v1/orders/{reference}. */
    async getOrder(reference: string, options: RequestOptions = {}): Promise<OrderAnswer> {
      const route = "/v1/orders/{reference}";
      const request = { method: "GET", route, policy: "sustained", reference, safe: true } as const;
      return readOrderAnswer(`GET ${route}`, await send(request, options));
    },
    /** GET /v1/orders: one page. */
    async listOrders(query: ListOrdersQuery, options: RequestOptions = {}): Promise<OrdersPage> {
      const request = { method: "GET", route: "/v1/orders", policy: "order-list", safe: true } as const;
      return readOrdersPage(await send({ ...request, query: encodeQuery(query) }, options));
    },
    /** GET /v1/branches, with the exact text of each. Paging is assumed to work as in GET /v1/orders. */
    async listBranches(
      page: { limit?: number | undefined; offset?: number | undefined } = {},
      options: RequestOptions = {},
    ) {
      const request = { method: "GET", route: "/v1/branches", policy: "sustained", safe: true } as const;
      const answer = await send({ ...request, query: encodeQuery(page) }, options);
      const branches = parseAnswer(listBranchesResponseSchema, "GET /v1/branches", answer);
      return { ...branches, raws: rawElements(rawMember(answer.text, "data") ?? "[]") };
    },
  };
}

function readOrdersPage(answer: ProviderAnswer): OrdersPage {
  const { requestedAt, requestId } = answer;
  return { ...refuseUnreadable("GET /v1/orders", answer, () => readPage(answer)), requestedAt, requestId };
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

function encodeQuery(query: ListOrdersQuery): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    parameters.set(name, typeof value === "bigint" ? formatInstant(value) : String(value));
  }
  return parameters;
}
