import { CONTRACT_ENDPOINTS, matchEndpoint, readTarget, type Match } from "../wire/endpoints.ts";

/** The addresses that the provider does not have. */
const OWN_ADDRESSES = ["/v1/orders.csv", "/v1/orders.ndjson", "/v1/changes", "/v1/changes/stream"].map(
  (path) => ({
    method: "GET",
    path,
  }),
);

/** Every address of the API. The provider's come first, in its order: the header Allow has it. */
export const API_ADDRESSES: readonly { readonly method: string; readonly path: string }[] = [
  ...CONTRACT_ENDPOINTS,
  ...OWN_ADDRESSES,
];

/** Finds what an address of a request means to the API: without methods, it is none of the API's addresses. */
export function matchAddress(method: string, address: string): Match<(typeof API_ADDRESSES)[number]> {
  return matchEndpoint(API_ADDRESSES, method, readTarget(address).path);
}
