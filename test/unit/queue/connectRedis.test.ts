import { expect, it } from "vitest";
import { readNodes } from "../../../src/queue/redisBackend.ts";

it("connects to the nodes of a cluster and to sentinels by address, without the brackets of IPv6", () => {
  const urls = ["redis://[::1]", "redis://127.0.0.1:7000", "redis://node-1.internal:7001"];
  expect(readNodes(urls, 6_379)).toEqual([
    { host: "::1", port: 6_379 },
    { host: "127.0.0.1", port: 7_000 },
    { host: "node-1.internal", port: 7_001 },
  ]);
});
