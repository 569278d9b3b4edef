import type { IncomingMessage } from "node:http";
import { expect, it } from "vitest";
import { makeAuthenticate } from "../../../src/http/authenticate.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";

it("admits a token from an address with failures if it succeeded there lately, however many others did", () => {
  const authenticate = makeAuthenticate({
    apiTokens: [{ token: "right", sourceId: "live" }],
    sources: [{ sourceId: "live" }],
    localTrust: false,
    clock: systemClock,
    logger: silentLogger,
  });
  const ask = (remoteAddress: string, token = "right") =>
    authenticate({
      socket: { remoteAddress },
      headers: { authorization: `Bearer ${token}` },
    } as unknown as IncomingMessage);
  ask("192.0.2.1");
  ask("192.0.2.2");
  for (let index = 0; index < 9_998; index += 1) ask(`10.0.${index >> 8}.${index & 255}`);
  ask("192.0.2.1");
  ask("192.0.2.3");
  for (const address of ["192.0.2.1", "192.0.2.2", "192.0.2.3"])
    for (let guess = 0; guess < 10; guess += 1) expect(() => ask(address, `guess-${guess}`)).toThrow(/key/i);
  expect(ask("192.0.2.1")).toBe("live");
  expect(ask("192.0.2.3")).toBe("live");
  expect(() => ask("192.0.2.2")).toThrow(/Too many wrong/);
});
