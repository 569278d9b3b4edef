import { expect, it } from "vitest";
import { addSeconds, parseInstant } from "../../../src/domain/order/instant.ts";
import type { Term } from "../../../src/poll/leadership.ts";
import { makeHeadSweep } from "../../../src/poll/sweeps.ts";
import { makeMemoryProvider } from "../../support/providers/memoryProvider.ts";

const NOW = parseInstant("2026-11-24T12:00:00Z");
const REACH = addSeconds(NOW, -600);
const VIEW = {
  providerNow: NOW,
  nowMs: 0,
  state: {
    historySince: REACH,
    polledThrough: NOW,
    safeThrough: undefined,
    hasRequests: false,
    areReadsDue: false,
    hasWalked: true,
    isListDoubted: false,
  },
};
const makeTerm = (): Term => ({
  lease: { name: "poll:live", holder: "test", fence: 1n },
  signal: new AbortController().signal,
  assertLeading: () => undefined,
});

it("a head sweep that was cut off goes on in the same term, and begins again in another one", () => {
  const source = { sourceId: "live" };
  const sweep = makeHeadSweep({ source, client: makeMemoryProvider(), pace: "request", intervalSeconds: 30 });
  const first = makeTerm();
  const begin = (term: Term) => {
    sweep.begin(VIEW, term, { closes: true, reach: REACH });
    return sweep.next(VIEW, term)!;
  };
  const read = begin(first);
  expect(read.window.since).toBe(REACH);
  read.noteRead({ whole: true, requests: 1, orders: 1, nowMs: 0 });
  expect(begin(first).window.since).toBe(read.window.until);
  expect(begin(makeTerm()).window.since).toBe(REACH);
});
