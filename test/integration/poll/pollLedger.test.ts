import fc from "fast-check";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { gaps } from "../../../src/domain/window/coverage.ts";
import { safeThrough } from "../../support/virtual/safeThroughModel.ts";
import type { Window } from "../../../src/domain/window/window.ts";
import { commitWindow, readGaps } from "../../../src/poll/ledger/coverage.sql.ts";
import type { WalkedWindow } from "../../../src/poll/ledger/coverage.sql.ts";
import { inTransaction } from "../../../src/database/transaction.ts";
import { acquireLease, LeaseLostError, releaseLease, renewLease } from "../../../src/database/leases.sql.ts";
import type { Lease } from "../../../src/database/leases.sql.ts";
import { startReading } from "../../../src/poll/cycle/readWindow.ts";
import { beginCycle, beginPolling, endCycle, readPollState } from "../../../src/poll/ledger/pollState.sql.ts";
import {
  completeRefetch,
  noteRefetchFailure,
  postponeRefetch,
  requestRefetches,
  takeRefetches,
} from "../../../src/poll/ledger/refetches.sql.ts";
import { beginWalk } from "../../../src/poll/ledger/walks.sql.ts";
import { makeDelayedSweep } from "../../../src/poll/sweeps/sweeps.ts";
import { makeWalkStore } from "../../../src/poll/sweeps/walkStore.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { emptying } from "../../support/mirror/emptying.ts";
import { makeMemoryProvider } from "../../support/providers/memoryProvider.ts";

const { database, pool } = await openLiveMirror({ statementTimeoutMs: 10_000 });

beforeEach(async () => {
  await pool.query(emptying("leases poll_state coverage refetches walks walk_pages"));
});

const TTL = { ttlMs: 15_000 };
const lead = async (holder = "a", ttlMs = TTL.ttlMs): Promise<Lease> => {
  const lease = await acquireLease(pool, { name: "poll:live", holder, ttlMs });
  if (lease === undefined) throw new Error("the lease is taken");
  return lease;
};
const expire = () => pool.query("update mirror.leases set expires_at = clock_timestamp() - interval '1 ms'");
/** A walk of the delayed sweep that is abandoned after its second page. */
const abandonWalk = (lease: Lease) => {
  const sweep = makeDelayedSweep({ settleSeconds: 5, overlapSeconds: 60, intervalSeconds: 30 });
  const deps = {
    source: { sourceId: "live" },
    client: makeMemoryProvider(),
    pool,
    clock: systemClock,
    settleSeconds: 5,
    overlapSeconds: 60,
  };
  const reading = { ...startReading({ since: 0n, until: 10n }, { limit: 2, nowMs: 0 }), begunAt: 20n };
  const before = { ...reading, walk: { ...reading.walk, pages: 1 } };
  const after = { ...before, walk: { ...before.walk, pages: 2, outcome: { kind: "stalled" } as const } };
  const term = { lease, signal: new AbortController().signal, assertLeading: () => undefined };
  return makeWalkStore(deps, sweep).save(pool, { before, after, decisions: [], term });
};
const beginDelayedWalk = (lease: Lease) => {
  const window = { since: 0n, until: 10n };
  const place = { sourceId: "live", sweep: "delayed", window, begunAt: 20n };
  return beginWalk(pool, lease, {
    progress: { ...place, step: 1, orders: 2, state: "{}" },
    keys: ["a", "b"],
  });
};
const begin = async (lease: Lease, state = { historySince: 0n, polledThrough: 0n }) =>
  beginPolling(pool, lease, { sourceId: "live", ...state });
const walked = (window: Window, more: Partial<WalkedWindow> = {}): WalkedWindow => ({
  ...window,
  sourceId: "live",
  sweep: "delayed",
  proved: true,
  movesCursor: false,
  margins: { settleSeconds: 5, overlapSeconds: 60 },
  begunAt: window.until,
  requests: 1,
  orders: 0,
  durationMs: 5,
  pagesBefore: 0,
  confirmsClaims: false,
  ...more,
});
/** The text of a row with the mode alone. */
const polledAs = "(live,,)";
const commit = async (lease: Lease, since: bigint, until: bigint, more: Partial<WalkedWindow> = {}) =>
  inTransaction(pool, (client) => commitWindow(client, lease, walked({ since, until }, more)));

describe("a lease", () => {
  it("has one holder at a time, and a greater number with each new one", async () => {
    const first = await lead("a");
    expect(first.fence).toBe(1n);
    expect(await acquireLease(pool, { name: "poll:live", holder: "b", ...TTL })).toBeUndefined();
    await releaseLease(pool, first);
    expect((await lead("b")).fence).toBe(2n);
    await expire();
    expect((await lead("a")).fence).toBe(3n);
  });
  it("goes to one of many concurrent candidates", async () => {
    const wanted = await Promise.all(
      ["a", "b", "c", "d"].map((holder) => acquireLease(pool, { name: "poll:live", holder, ...TTL })),
    );
    expect(wanted.filter((lease) => lease !== undefined)).toHaveLength(1);
  });
  it("is renewed only by its holder, and only before it expires", async () => {
    const lease = await lead();
    expect(await renewLease(pool, lease, TTL)).toBe(true);
    expect(await renewLease(pool, { ...lease, fence: lease.fence + 1n }, TTL)).toBe(false);
    await expire();
    expect(await renewLease(pool, lease, TTL)).toBe(false);
  });
});

describe("writes under a lost lease", () => {
  const writes: Record<string, (lease: Lease) => Promise<unknown>> = {
    "committing a window": (lease) => commit(lease, 0n, 10n),
    "beginning to poll": (lease) => begin(lease),
    "beginning a cycle": (lease) => beginCycle(pool, lease, { sourceId: "live", polledAs, intervalMs: 1 }),
    "ending a cycle": (lease) =>
      endCycle(pool, lease, { sourceId: "live", failure: { sentence: "x", trouble: "other" } }),
    "abandoning a walk": (lease) => abandonWalk(lease),
  };
  it.each(Object.entries(writes))(
    "are refused for %s, whether it expired or another leads",
    async (_, write) => {
      const old = await lead("old");
      await begin(old);
      await beginDelayedWalk(old);
      const read = async () =>
        (
          await pool.query(
            `select s.*, (select count(*) from mirror.coverage) as windows, (select count(*) from mirror.walks) as walks,
               (select count(*) from mirror.walk_pages) as pages from mirror.poll_state s`,
          )
        ).rows;
      const before = await read();
      await expire();
      await expect(write(old)).rejects.toThrow(LeaseLostError);
      await lead("new");
      await expect(write(old)).rejects.toThrow(LeaseLostError);
      expect(await read()).toEqual(before);
    },
  );

  it("are accepted for abandoning a walk while the lease is held", async () => {
    const lease = await lead();
    await beginDelayedWalk(lease);
    expect(await abandonWalk(lease)).toBeUndefined();
    const { rows } = await pool.query(
      "select sweep from mirror.walks union all select sweep from mirror.walk_pages",
    );
    expect(rows).toEqual([]);
  });

  it("cannot commit while the lease changes hands", async () => {
    const old = await lead("old");
    await begin(old);
    const taker = await database.pool.connect();
    await taker.query("begin");
    await taker.query(
      "update mirror.leases set holder = 'new', fence = fence + 1, expires_at = now() + interval '1 h'",
    );
    const late = commit(old, 0n, 10n).catch((error: unknown) => error);
    const waits = async () =>
      (
        await pool.query(
          "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
        )
      ).rowCount;
    await vi.waitFor(async () => expect(await waits()).toBe(1), 60_000);
    await taker.query("commit");
    taker.release();
    expect(await late).toBeInstanceOf(LeaseLostError);
  });
});

describe("a cycle", () => {
  it("starts no earlier than the interval after the last one, whoever led it", async () => {
    const first = await lead("a");
    await begin(first);
    const cycle = { sourceId: "live", polledAs, intervalMs: 3_600_000 };
    expect(await beginCycle(pool, first, cycle)).toMatchObject({ kind: "begun" });
    await releaseLease(pool, first);
    const second = await lead("b");
    const early = await beginCycle(pool, second, cycle);
    const waitMs = early.kind === "not_due" ? early.waitMs : 0;
    expect(waitMs).toBeGreaterThan(3_000_000);
    expect(waitMs).toBeLessThanOrEqual(3_600_000);
    await pool.query("update mirror.poll_state set last_cycle_started_at = now() - interval '3600.1 s'");
    expect(await beginCycle(pool, second, cycle)).toMatchObject({ kind: "begun" });
  });
  it("does not start when the source is no longer as it was when it was checked", async () => {
    const lease = await lead();
    await begin(lease);
    const cycle = { sourceId: "live", polledAs, intervalMs: 30_000 };
    await pool.query("update mirror.sources set paused_at = now()");
    expect(await beginCycle(pool, lease, cycle)).toMatchObject({ kind: "source_changed" });
    await pool.query("update mirror.sources set paused_at = null, provider = 'another'");
    expect(await beginCycle(pool, lease, cycle)).toMatchObject({ kind: "source_changed" });
    expect((await readPollState(pool, "live"))?.idleMs).toBeUndefined();
    await pool.query("update mirror.sources set provider = null");
    expect(await beginCycle(pool, lease, cycle)).toMatchObject({ kind: "begun" });
  });
  it("is not delayed by a last start in the future, after the clock was set back", async () => {
    const lease = await lead();
    await begin(lease);
    await pool.query("update mirror.poll_state set last_cycle_started_at = now() + interval '1 hour'");
    expect(await beginCycle(pool, lease, { sourceId: "live", polledAs, intervalMs: 30_000 })).toMatchObject({
      kind: "begun",
    });
  });
  it("reports how long nothing was read to the next leader, and 0 when it was cut short", async () => {
    const lease = await lead();
    expect(await readPollState(pool, "live")).toBeUndefined();
    await begin(lease, { historySince: 5n, polledThrough: 7n });
    const state = { historySince: 5n, polledThrough: 7n, safeThrough: undefined };
    expect(await readPollState(pool, "live")).toEqual({ ...state, idleMs: undefined });
    await beginCycle(pool, lease, { sourceId: "live", polledAs, intervalMs: 30_000 });
    expect(await readPollState(pool, "live")).toEqual({ ...state, idleMs: 0 });
    await endCycle(pool, lease, { sourceId: "live", failure: null });
    await vi.waitFor(
      async () => expect((await readPollState(pool, "live"))?.idleMs).toBeGreaterThan(5),
      60_000,
    );
  });
  it("keeps its failure message until a cycle succeeds", async () => {
    const lease = await lead();
    await begin(lease);
    const readError = async () =>
      (await pool.query("select last_error, last_error_at from mirror.poll_state")).rows[0];
    await endCycle(pool, lease, {
      sourceId: "live",
      failure: { sentence: "the key is refused", trouble: "key_refused" },
    });
    expect(await readError()).toMatchObject({ last_error: "the key is refused" });
    await endCycle(pool, lease, { sourceId: "live", failure: null });
    expect(await readError()).toMatchObject({ last_error: null, last_error_at: expect.anything() });
  });
});

describe("the ledger", () => {
  it("moves the cursor only with a window that requests it, and only forward", async () => {
    const lease = await lead();
    await begin(lease, { historySince: 0n, polledThrough: 100n });
    const through = async (until: bigint, movesCursor: boolean) =>
      (await commit(lease, 90n, until, { movesCursor, proved: false })).polledThrough;
    expect(await through(200n, false)).toBe(100n);
    expect(await through(150n, true)).toBe(150n);
    expect(await through(120n, true)).toBe(150n);
  });
  it("advances safe_through only over proved windows, stops at a gap, and jumps when it is filled", async () => {
    const lease = await lead();
    await begin(lease, { historySince: 10n, polledThrough: 0n });
    const safe = async (since: bigint, until: bigint, proved = true) =>
      (await commit(lease, since, until, { proved })).safeThrough;
    expect(await safe(0n, 20n, false)).toBeUndefined();
    expect(await safe(12n, 20n)).toBeUndefined();
    expect(await safe(5n, 12n)).toBe(20n);
    expect(await safe(30n, 40n)).toBe(20n);
    expect(await safe(20n, 31n, false)).toBe(20n);
    expect(await safe(20n, 29n)).toBe(29n);
    expect(await safe(0n, 15n)).toBe(29n);
    expect(await safe(29n, 30n)).toBe(40n);
  });
  it("finds the gaps, oldest first", async () => {
    const lease = await lead();
    await begin(lease);
    await commit(lease, 10n, 20n);
    await commit(lease, 30n, 40n);
    await commit(lease, 20n, 30n, { proved: false });
    const within = { since: 0n, until: 50n };
    const found = await readGaps(pool, { sourceId: "live", within, limit: 10 });
    expect(found).toEqual([
      { since: 0n, until: 10n },
      { since: 20n, until: 30n },
      { since: 40n, until: 50n },
    ]);
    expect(await readGaps(pool, { sourceId: "live", within, limit: 1 })).toEqual(found.slice(0, 1));
    expect(await readGaps(pool, { sourceId: "other", within, limit: 9 })).toEqual([within]);
  });
  it("agrees with the arithmetic in src/domain", async () => {
    const window = fc
      .tuple(fc.bigInt({ min: -20n, max: 40n }), fc.bigInt({ min: 1n, max: 15n }), fc.boolean())
      .map(([since, length, proved]) => ({ since, until: since + length, proved }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(window, { maxLength: 8 }),
        fc.bigInt({ min: -20n, max: 20n }),
        async (windows, from) => {
          await pool.query(emptying("leases poll_state coverage"));
          const lease = await lead();
          await begin(lease, { historySince: from, polledThrough: from });
          let expected = from;
          for (const [index, { since, until, proved }] of windows.entries()) {
            const known = windows.slice(0, index + 1).filter((earlier) => earlier.proved);
            const before = expected;
            expected = safeThrough(expected, known);
            const { safeThrough: actual } = await commit(lease, since, until, { proved });
            expect(actual ?? from).toBe(expected);
            expect(expected).toBeGreaterThanOrEqual(before);
          }
          const within = { since: -30n, until: 60n };
          const proved = windows.filter((one) => one.proved);
          expect(await readGaps(pool, { sourceId: "live", within, limit: 100 })).toEqual(
            gaps(within, proved),
          );
        },
      ),
      { numRuns: 60, seed: 20_261_120 },
    );
  });
});

describe("refetches", () => {
  const take = (limit = 10) => takeRefetches(pool, { sourceId: "live", limit });
  const request = (...references: string[]) =>
    requestRefetches(pool, { sourceId: "live", references, reason: "asked" });
  it("are taken oldest first, failed ones later, and are deleted when done", async () => {
    await request("R1", "R1");
    await request("R2");
    const [first] = await take();
    expect((await take()).map(({ reference }) => reference)).toEqual(["R1", "R2"]);
    await postponeRefetch(pool, { sourceId: "live", refetch: first!, waitMs: 0 });
    expect((await take()).map(({ reference }) => reference)).toEqual(["R2", "R1"]);
    await postponeRefetch(pool, { sourceId: "live", refetch: first!, waitMs: 60_000 });
    expect((await take()).map(({ reference }) => reference)).toEqual(["R2"]);
    await request("R1");
    expect((await take()).map(({ reference }) => reference)).toEqual(["R2", "R1"]);
    await completeRefetch(pool, { sourceId: "live", refetch: (await take(1))[0]!, shown: undefined });
    expect((await take()).map(({ reference }) => reference)).toEqual(["R1"]);
  });
  it("count the reads that came too early, and those that failed", async () => {
    await request("R1");
    const [taken] = await take();
    await postponeRefetch(pool, { sourceId: "live", refetch: taken!, waitMs: 0 });
    const patience = { firstWaitMs: 0, failuresMax: 5, seldomMs: 0 };
    const failure = { sourceId: "live", reference: "R1", reason: "asked", error: "HTTP 500", patience };
    expect(await noteRefetchFailure(pool, failure)).toBe(1);
    const { rows } = await pool.query("select attempts, failures, last_error from mirror.refetches");
    expect(rows).toEqual([{ attempts: 2, failures: 1, last_error: "HTTP 500" }]);
  });
  it("stay when they are requested again while the order is being read", async () => {
    await request("R1");
    const [taken] = await take();
    await request("R1");
    await completeRefetch(pool, { sourceId: "live", refetch: taken!, shown: undefined });
    expect(await take()).toHaveLength(1);
  });
});
