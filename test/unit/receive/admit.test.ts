import { expect, it } from "vitest";
import { listHeaders } from "../../../src/receive/admit.ts";

it("lists every value of a header, and treats __proto__ like any other name", () => {
  const rawHeaders = [
    "Webhook-Id",
    "a",
    "__proto__",
    "x",
    "webhook-id",
    "b",
    "__PROTO__",
    "y",
    "constructor",
    "z",
  ];
  const headers = listHeaders({ rawHeaders });
  expect(Object.entries(headers)).toEqual([
    ["webhook-id", ["a", "b"]],
    ["__proto__", ["x", "y"]],
    ["constructor", ["z"]],
  ]);
  expect(headers["toString"]).toBeUndefined();
  expect(Object.getPrototypeOf(headers)).toBeNull();
});
