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
  ["request", 2, 1],
  ["cycle", 4, 0],
] as const)(
  "a failing list read with the pace %s is sent %i times, %i interval apart",
  async (pace, times, waits) => {
    provider.script(hangUp);
    const slept: number[] = [];
    const before = provider.requests.length;
    const source = { sourceId: "live", mode: "live" } as const;
    const client = makeHastyClient({ baseUrl: provider.url });
    const readPage = makeReadPage({
      source,
      client,
      clock: { ...systemClock, sleep: (ms) => Promise.resolve(void slept.push(Math.round(ms / 1_000))) },
      pace,
      intervalSeconds: 3_000,
      marginSeconds: 300,
    });
    const window = { since: 0n, until: NANOS_PER_SECOND };
    const reading = startReading(window, { limit: 200, nowMs: 0, open: false, pace: "request" });
    const { signal } = new AbortController();
    const read = readPage(reading, { via: "poll", priority: "poll", signal });
    await expect(read).rejects.toMatchObject({ failure: "unavailable" });
    expect(provider.requests.length - before).toBe(times);
    expect(slept).toEqual(Array.from({ length: waits }, () => 3_000));
  },
);
