import { afterAll, beforeAll, expect, it } from "vitest";
import { NANOS_PER_SECOND } from "../../../src/domain/order/instant.ts";
import { makeReadPage, startReading } from "../../../src/poll/cycle/readWindow.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { hangUp, makeHastyClient, startScriptedProvider } from "../../support/providers/scriptedProvider.ts";
import type { ScriptedProvider } from "../../support/providers/scriptedProvider.ts";

let provider: ScriptedProvider;
beforeAll(async () => {
  provider = await startScriptedProvider();
});
afterAll(() => provider.close());

it.each([
  ["request", 1],
  ["cycle", 4],
] as const)("a failing list read with the pace %s is sent %i times in its turn", async (pace, times) => {
  provider.script(hangUp);
  const before = provider.requests.length;
  const source = { sourceId: "live", mode: "live" } as const;
  const client = makeHastyClient({ baseUrl: provider.url });
  const readPage = makeReadPage({
    source,
    client,
    clock: systemClock,
    pace,
    intervalSeconds: 30,
    marginSeconds: 300,
  });
  const window = { since: 0n, until: NANOS_PER_SECOND };
  const reading = startReading(window, { limit: 200, nowMs: 0, open: false, pace: "request" });
  const { signal } = new AbortController();
  const read = readPage(reading, { via: "poll", priority: "poll", signal });
  await expect(read).rejects.toMatchObject({ failure: "unavailable" });
  expect(provider.requests.length - before).toBe(times);
});
