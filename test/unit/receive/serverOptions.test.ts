import { createServer } from "node:http";
import { expect, it } from "vitest";
import { receiverServerOptions } from "../../../src/receive/endpoint/serverOptions.ts";

it("ends slow requests within seconds, and keeps idle connections longer than a load balancer does", () => {
  const server = createServer(receiverServerOptions);
  expect(server.headersTimeout).toBe(5_000);
  expect(server.requestTimeout).toBe(10_000);
  expect(server.keepAliveTimeout).toBeGreaterThan(60_000);
  expect(receiverServerOptions.connectionsCheckingInterval).toBe(1_000);
});
