import { tryDecode } from "../domain/parseJson.ts";

/** The endpoints of the spec. Assumed: PATCH, because the spec does not show how to change an order. */
export const CONTRACT_ENDPOINTS = [
  { name: "createOrder", method: "POST", path: "/v1/orders" },
  { name: "quoteOrder", method: "POST", path: "/v1/orders/quote" },
  { name: "listOrders", method: "GET", path: "/v1/orders" },
  { name: "getOrder", method: "GET", path: "/v1/orders/:reference" },
  { name: "updateOrder", method: "PATCH", path: "/v1/orders/:reference" },
  { name: "cancelOrder", method: "POST", path: "/v1/orders/:reference/cancel" },
  { name: "advanceOrder", method: "POST", path: "/v1/test/orders/:reference/advance" },
  { name: "validateAddress", method: "POST", path: "/v1/addresses/validate" },
  { name: "listBranches", method: "GET", path: "/v1/branches" },
] as const satisfies readonly { name: string; method: string; path: string }[];

/** The target of a path: an endpoint, the supported methods, or nothing. */
export interface Match<Endpoint> {
  readonly endpoint: Endpoint | undefined;
  /** The decoded segment of `:reference`; empty if the path has none. */
  readonly reference: string;
  /** For the header Allow; empty when the path does not exist. */
  readonly methods: readonly string[];
}

/** Finds the endpoint of a request; HEAD is answered like GET, without the body. */
export function matchEndpoint<Endpoint extends { readonly method: string; readonly path: string }>(
  endpoints: readonly Endpoint[],
  method: string,
  path: string,
): Match<Endpoint> {
  const asked = method === "HEAD" ? "GET" : method;
  const found = endpoints.flatMap((endpoint) => {
    const params = matchPath(endpoint.path, path);
    return params ? [{ endpoint, reference: params["reference"] ?? "" }] : [];
  });
  const hit = found.find(({ endpoint }) => endpoint.method === asked);
  return {
    endpoint: hit?.endpoint,
    reference: hit?.reference ?? "",
    methods: [...new Set(found.map(({ endpoint }) => endpoint.method))],
  };
}

/** The decoded `:name` segments; undefined if `path` does not match, or one is empty or malformed. */
function matchPath(pattern: string, path: string): Readonly<Record<string, string>> | undefined {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    const part = given[index] ?? "";
    if (segment.startsWith(":")) {
      const decoded = tryDecode(part);
      if (decoded === undefined || decoded === "") return undefined;
      params[segment.slice(1)] = decoded;
    } else if (segment !== part) return undefined;
  }
  return params;
}

/** Path and parameters of a request's target, as sent: `..` is a segment like any other. */
export function readTarget(target: string): { readonly path: string; readonly query: URLSearchParams } {
  const start = target.indexOf("?");
  const path = start === -1 ? target : target.slice(0, start);
  return { path, query: new URLSearchParams(start === -1 ? "" : target.slice(start + 1)) };
}
