import { describe, expect, it } from "vitest";
import { CONTRACT_ENDPOINTS, matchEndpoint } from "../../../src/wire/endpoints.ts";

describe("paths", () => {
  it("match segment by segment and decode parameters", () => {
    const match = (path: string) => matchEndpoint(CONTRACT_ENDPOINTS, "GET", path);
    expect(match("/v1/orders/a%2Fb%20c")).toMatchObject({
      endpoint: { name: "getOrder" },
      reference: "a/b c",
    });
    for (const path of ["/v1/orders/", "/v1/orders/a/b", "/v1/order/a", "/v1/orders/%E0%A4%A"])
      expect(match(path).endpoint).toBeUndefined();
  });

  it("route every endpoint by method, and list the methods of a path", () => {
    const endpoints = CONTRACT_ENDPOINTS;
    const name = (method: string, path: string) => matchEndpoint(endpoints, method, path).endpoint?.name;
    expect(name("POST", "/v1/orders/quote")).toBe("quoteOrder");
    expect(name("GET", "/v1/orders/quote")).toBe("getOrder");
    expect(name("HEAD", "/v1/orders")).toBe("listOrders");
    expect(name("PUT", "/v1/orders")).toBeUndefined();
    expect(matchEndpoint(endpoints, "PUT", "/v1/orders").methods).toEqual(["POST", "GET"]);
    expect(matchEndpoint(endpoints, "GET", "/v2/orders").methods).toEqual([]);
  });
});
