import { expect, it } from "vitest";
import { addSeconds, parseInstant } from "../../../src/domain/order/instant.ts";
import type { Term } from "../../../src/poll/leadership.ts";
import { makeHeadSweep } from "../../../src/poll/headSweep.ts";
import type { Pool } from "../../../src/database/database.ts";
import type { WindowJob, WindowRead } from "../../../src/poll/windows.ts";
import { makeMemoryProvider } from "../../support/providers/memoryProvider.ts";

const NOW = parseInstant("2026-11-24T12:00:00Z");
const REACH = addSeconds(NOW, -600);
const VIEW = {
  providerNow: NOW,
  nowMs: 0,
  state: {
    historySince: REACH,
    polledThrough: NOW,
    safeThrough: null,
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

const walkedTo = { upTo: 1n, reach: REACH };
/** A database in which every head is recorded. */
const pool = {
  query: () => Promise.resolve({ rows: [{ isCurrent: true, doubted: null }] }),
} as unknown as Pool;
const read = ({ window }: WindowJob): WindowRead => ({
  window,
  begunAt: NOW,
  durationMs: 1,
  whole: true,
  requests: 1,
  orders: 1,
  listed: [],
  differed: [],
});

it("a head sweep that was cut off goes on in the same term, and begins again in another one", async () => {
  const source = { sourceId: "live" };
  const client = makeMemoryProvider();
  const sweep = makeHeadSweep({ source, client, pool, pace: "request", intervalSeconds: 30 });
  const begin = async (term: Term) => {
    sweep.begin(VIEW, term, walkedTo);
    return (await sweep.next(VIEW, term))!;
  };
  const first = makeTerm();
  const job = await begin(first);
  expect(job.window.since).toBe(REACH);
  await job.record(read(job));
  expect((await begin(first)).window.since).toBe(job.window.until);
  expect((await begin(makeTerm())).window.since).toBe(REACH);
});
