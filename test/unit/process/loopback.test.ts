import type { IncomingMessage } from "node:http";
import { describe, expect, it } from "vitest";
import { isLocalRequest, isLoopback } from "../../../src/process/loopback.ts";

describe("a loopback address", () => {
  it.each(["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::FFFF:127.0.0.9"])(
    "is %s",
    (address) => expect(isLoopback(address)).toBe(true),
  );

  it.each([
    undefined,
    "",
    "128.0.0.1",
    "126.255.255.255",
    "10.0.0.1",
    "::2",
    "::",
    "::ffff:10.0.0.1",
    "127.0.0.1.example.com",
    "localhost",
  ])("is not %s", (address) => expect(isLoopback(address)).toBe(false));
});

describe("a local request", () => {
  const request = (headers: Record<string, string>, remoteAddress = "127.0.0.1") =>
    ({ socket: { remoteAddress }, headers }) as unknown as IncomingMessage;

  it.each(["localhost", "localhost:3000", "LOCALHOST:3000", "demo.localhost", "127.0.0.1:80", "[::1]:3000"])(
    "names this machine: %s",
    (host) => expect(isLocalRequest(request({ host }))).toBe(true),
  );

  it.each([
    "example.com",
    "example.com:3000",
    "127.0.0.1.example.com",
    "localhost.example.com",
    "10.0.0.1",
    "a b",
    "",
  ])("is not one for the name %s, which may only resolve to here", (host) =>
    expect(isLocalRequest(request({ host }))).toBe(false),
  );

  it("is not one without Host", () => {
    expect(isLocalRequest(request({}))).toBe(false);
  });

  it("is not one from another address, whatever its headers", () => {
    const claims = { host: "localhost", "x-forwarded-for": "127.0.0.1" };
    expect(isLocalRequest(request(claims, "10.0.0.1"))).toBe(false);
    expect(isLocalRequest(request({ host: "localhost" }, "10.0.0.1"))).toBe(false);
  });

  it.each([
    "x-forwarded-for",
    "forwarded",
    "x-real-ip",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded",
    "cf-connecting-ip",
    "true-client-ip",
    "x-client-ip",
    "via",
  ])("is not one that came through a proxy (%s)", (name) =>
    expect(isLocalRequest(request({ host: "localhost", [name]: "127.0.0.1" }))).toBe(false),
  );
});
