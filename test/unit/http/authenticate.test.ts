import type { IncomingMessage } from "node:http";
import { expect, it } from "vitest";
import { makeAuthenticate } from "../../../src/http/authenticate.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";

it("admits a right token from an address with any number of wrong ones, even if it was never used there", () => {
  const authenticate = makeAuthenticate({
    apiTokens: [{ token: "right", sourceId: "live" }],
    sources: [{ sourceId: "live" }],
    localTrust: false,
    clock: systemClock,
    logger: silentLogger,
  });
  const ask = (token: string) =>
    authenticate({
      socket: { remoteAddress: "192.0.2.1" },
      headers: { authorization: `Bearer ${token}` },
    } as unknown as IncomingMessage);
  for (let guess = 0; guess < 10; guess += 1) expect(() => ask(`guess-${guess}`)).toThrow(/key/i);
  expect(() => ask("another")).toThrow(/Too many wrong/);
  expect(ask("right")).toBe("live");
});
