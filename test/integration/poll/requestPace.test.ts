import { afterAll, expect, it } from "vitest";
import { NANOS_PER_SECOND } from "../../../src/domain/order/instant.ts";
import { makeListPage } from "../../../src/poll/windows.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { hangUp, makeHastyClient, startScriptedProvider } from "../../support/providers/scriptedProvider.ts";

const provider = await startScriptedProvider();
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
    const listPage = makeListPage({
      client: makeHastyClient({ baseUrl: provider.url }),
      clock: { ...systemClock, sleep: (ms) => Promise.resolve(void slept.push(Math.round(ms / 1_000))) },
      pace,
      intervalSeconds: 3_000,
    });
    const range = { since: 0n, until: NANOS_PER_SECOND };
    const { signal } = new AbortController();
    const read = listPage({ ...range, offset: 0, limit: 200 }, { priority: "poll", signal });
    await expect(read).rejects.toMatchObject({ failure: "unavailable" });
    expect(provider.requests.length - before).toBe(times);
    expect(slept).toEqual(Array.from({ length: waits }, () => 3_000));
  },
);
