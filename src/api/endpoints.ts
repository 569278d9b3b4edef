import { CONTRACT_ENDPOINTS, matchEndpoint, readTarget } from "../wire/endpoints.ts";

/**
 * Every endpoint of the API. The router and the document name what they have for each of them by its name. The
 * provider's come first, in its order: the header Allow has it.
 */
export const API_ENDPOINTS = [
  ...CONTRACT_ENDPOINTS,
  { name: "exportOrdersAsCsv", method: "GET", path: "/v1/orders.csv" },
  { name: "exportOrdersAsNdjson", method: "GET", path: "/v1/orders.ndjson" },
  { name: "listChanges", method: "GET", path: "/v1/changes" },
  { name: "streamChanges", method: "GET", path: "/v1/changes/stream" },
] as const;

type Endpoint = (typeof API_ENDPOINTS)[number];
export type EndpointName = Endpoint["name"];
export type ReadName = Extract<Endpoint, { method: "GET" }>["name"];

/** Finds what an address of a request means to the API: without methods, it is none of the API's addresses. */
export const matchAddress = (method: string, address: string) =>
  matchEndpoint<Endpoint>(API_ENDPOINTS, method, readTarget(address).path);
