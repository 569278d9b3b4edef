import type { ServerOptions } from "node:http";

/**
 * Options for `http.createServer` wherever the receiver is served: they are what ends slow requests with 408.
 * Node's own limits (60 s, 300 s, looked at every 30 s) let a few hundred idle sockets hold up a process.
 */
export const receiverServerOptions = {
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 1_000,
  maxHeaderSize: 16_384,
  // Longer than what load balancers keep idle connections for (60 s), so that they close them and not we: a
  // request that meets our close half-way is lost.
  keepAliveTimeout: 65_000,
} as const satisfies ServerOptions;
