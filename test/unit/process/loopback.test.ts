import type { IncomingMessage } from "node:http";
import { expect, it } from "vitest";
import { isLocalRequest } from "../../../src/process/loopback.ts";

const isLocal = (headers: Record<string, string>, remoteAddress: string | undefined = "127.0.0.1") =>
  isLocalRequest({ socket: { remoteAddress }, headers } as unknown as IncomingMessage);

it.each(["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::FFFF:127.0.0.9"])(
  "a request from %s is local",
  (address) => expect(isLocal({ host: "localhost" }, address)).toBe(true),
);

it.each([
  "",
  "128.0.0.1",
  "126.255.255.255",
  "10.0.0.1",
  "::2",
  "::",
  "::ffff:10.0.0.1",
  "127.0.0.1.example.com",
  "localhost",
])("a request from %j is not, whatever its headers", (address) => {
  expect(isLocal({ host: "localhost" }, address)).toBe(false);
  expect(isLocal({ host: "127.0.0.1" }, address)).toBe(false);
});

it.each(["localhost", "localhost:3000", "LOCALHOST:3000", "demo.localhost", "127.0.0.1:80", "[::1]:3000"])(
  "a local request names this machine: %s",
  (host) => expect(isLocal({ host })).toBe(true),
);

it.each([
  "example.com",
  "example.com:3000",
  "127.0.0.1.example.com",
  "localhost.example.com",
  "10.0.0.1",
  "a b",
  "",
])("a request is not local for the name %j, which may only resolve to here", (host) => {
  expect(isLocal({ host })).toBe(false);
});

it("a request without Host is not local", () => expect(isLocal({})).toBe(false));

it.each([
  "x-forwarded-for",
  "forwarded",
  "x-real-ip",
  "x-forwarded-host",
  "x-forwarded",
  "cf-connecting-ip",
  "true-client-ip",
  "x-client-ip",
  "via",
])("a request that came through a proxy (%s) is not local", (name) =>
  expect(isLocal({ host: "localhost", [name]: "127.0.0.1" })).toBe(false),
);
