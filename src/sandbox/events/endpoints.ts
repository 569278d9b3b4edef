import type { ApiAnswer, ApiRequest, Endpoint } from "../api/apiRequest.ts";
import { createOrder, quoteOrder, validateAddress } from "../api/createOrder.ts";
import { listBranches, listOrders } from "../api/listOrders.ts";
import { matchPath } from "../world/paths.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { advanceOrder, cancelOrder, getOrder, updateOrder } from "../api/singleOrders.ts";

type Answerer = (state: SandboxState, request: ApiRequest) => Promise<ApiAnswer>;

/**
 * Every endpoint of the spec with its rate policies. Assumed: PATCH /v1/orders/{reference}, because the spec does not
 * show how to change an order; and that /v1 is the only version.
 */
export function makeEndpoints(state: SandboxState): readonly Endpoint[] {
  const endpoint = (
    [name, method, path]: [Endpoint["name"], Endpoint["method"], string],
    answer: Answerer,
    rules: Partial<Pick<Endpoint, "policies" | "sells" | "readsBody">> = {},
  ): Endpoint => ({
    name,
    method,
    path,
    policies: ["sustained"],
    sells: false,
    readsBody: false,
    ...rules,
    answer: (request) => answer(state, request),
  });
  const geocodes = { policies: ["sustained", "geocoding"] as const, readsBody: true };
  return [
    endpoint(["createOrder", "POST", "/v1/orders"], createOrder, { ...geocodes, sells: true }),
    endpoint(["quoteOrder", "POST", "/v1/orders/quote"], quoteOrder, { ...geocodes, sells: true }),
    endpoint(["listOrders", "GET", "/v1/orders"], listOrders, { policies: ["sustained", "order-list"] }),
    endpoint(["getOrder", "GET", "/v1/orders/:reference"], getOrder),
    endpoint(["updateOrder", "PATCH", "/v1/orders/:reference"], updateOrder, { readsBody: true }),
    endpoint(["cancelOrder", "POST", "/v1/orders/:reference/cancel"], cancelOrder),
    endpoint(["advanceOrder", "POST", "/v1/test/orders/:reference/advance"], advanceOrder),
    endpoint(["validateAddress", "POST", "/v1/addresses/validate"], validateAddress, geocodes),
    endpoint(["listBranches", "GET", "/v1/branches"], listBranches),
  ];
}

/** The target of a path: an endpoint, the supported methods, or nothing. */
export interface Match {
  readonly endpoint: Endpoint | undefined;
  readonly reference: string;
  /** For the header Allow; empty when the path does not exist. */
  readonly methods: readonly string[];
}

/** Finds the endpoint of a request; HEAD is answered like GET, without the body. */
export function matchEndpoint(endpoints: readonly Endpoint[], method: string, path: string): Match {
  const asked = method === "HEAD" ? "GET" : method;
  const found = endpoints.flatMap((endpoint) => {
    const params = matchPath(endpoint.path, path);
    return params ? [{ endpoint, reference: params["reference"] ?? "" }] : [];
  });
  // Only the quote's path also matches as a reference; it is listed first, so the first match counts.
  const hit = found.find(({ endpoint }) => endpoint.method === asked);
  return {
    endpoint: hit?.endpoint,
    reference: hit?.reference ?? "",
    methods: [...new Set(found.map(({ endpoint }) => endpoint.method))],
  };
}
