import type { IncomingMessage } from "node:http";
import { expect, it } from "vitest";
import { isLocalRequest } from "../../../src/process/loopback.ts";

const isLocal = (headers: Record<string, string>, remoteAddress: string | undefined = "127.0.0.1") =>
  isLocalRequest({ socket: { remoteAddress }, headers } as unknown as IncomingMessage);

it.each<[what: string, yes: string, no: string, isLocalWith: (text: string) => boolean]>([
  [
    "the address that it comes from, whatever its headers",
    "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 ::FFFF:127.0.0.9",
    "128.0.0.1 126.255.255.255 10.0.0.1 ::2 :: ::ffff:10.0.0.1 127.0.0.1.example.com localhost",
    (address) => isLocal({ host: "localhost" }, address),
  ],
  [
    "the name that it is for, which may only resolve to here",
    "localhost localhost:3000 LOCALHOST:3000 demo.localhost 127.0.0.1:80 [::1]:3000",
    "example.com example.com:3000 127.0.0.1.example.com localhost.example.com 10.0.0.1",
    (host) => isLocal({ host }),
  ],
  [
    "a header that proxies add",
    "x-request-id",
    "x-forwarded-for forwarded x-real-ip x-forwarded-host x-forwarded cf-connecting-ip true-client-ip x-client-ip via",
    (name) => isLocal({ host: "localhost", [name]: "127.0.0.1" }),
  ],
])("a request is local by %s", (_what, yes, no, isLocalWith) => {
  expect(yes.split(" ").filter((text) => !isLocalWith(text))).toEqual([]);
  expect(no.split(" ").filter(isLocalWith)).toEqual([]);
});

it("a request without an address or a name is not local", () => {
  const others = [
    isLocal({ host: "localhost" }, ""),
    isLocal({ host: "" }),
    isLocal({ host: "a b" }),
    isLocal({}),
  ];
  expect(others).toEqual([false, false, false, false]);
});
