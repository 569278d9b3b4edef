import { expect, it } from "vitest";
import { addSeconds, parseInstant } from "../../../src/domain/order/instant.ts";
import type { Term } from "../../../src/poll/leadership.ts";
import { makeHeadSweep } from "../../../src/poll/sweeps/headSweep.ts";
import type { WindowJob } from "../../../src/poll/sweeps/windows.ts";
import { makeRead } from "../../support/mirror/tables.ts";
import { makeMemoryProvider } from "../../support/providers/memoryProvider.ts";
import { asPool } from "../../support/servers/database.ts";

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
/** How many heads made proofs. */
let closed = 0;
/** A database in which every head is recorded; one that makes proofs also names the last of them. */
const pool = asPool({
  query({ values }: { values: readonly unknown[] }) {
    if (values.length > 5) closed += 1;
    return Promise.resolve({ rows: [{ isCurrent: true }] });
  },
});
const read = ({ window }: WindowJob, whole = true) => makeRead(window, { begunAt: NOW, whole });

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

it.each([
  ["each was read whole", [true, true], {}, 1],
  ["the last one was not read whole", [true, false], {}, 0],
  ["an earlier one was not read whole", [false, true], {}, 0],
  ["all were read while the clocks differ", [true, true], { disagreementSeconds: () => 61 }, 0],
  ["the end of the open one is near", [true, true], { providerNow: () => addSeconds(NOW, 3_540) }, 0],
])("a head sweep makes proofs only if of its windows %s", async (_, wholes, clock, proofs) => {
  const source = { sourceId: "live" };
  const client = makeMemoryProvider();
  const providerClock = { ...client.providerClock, providerNow: () => NOW, ...clock };
  const deps = {
    source,
    client: { ...client, providerClock },
    pool,
    pace: "cycle",
    intervalSeconds: 30,
  } as const;
  const sweep = makeHeadSweep(deps);
  const term = makeTerm();
  // Longer than the longest window.
  sweep.begin(VIEW, term, { upTo: 1n, reach: addSeconds(NOW, -5_000) });
  closed = 0;
  for (const whole of wholes) {
    const job = (await sweep.next(VIEW, term))!;
    await job.record(read(job, whole));
  }
  expect([await sweep.next(VIEW, term), closed]).toEqual([undefined, proofs]);
});
