import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { gaps, safeThrough } from "../../support/virtual/windows.ts";
import type { Window } from "../../../src/domain/window/window.ts";
import {
  commitHead,
  readGaps,
  readWalked,
  recordWalked,
  type HeadWindow,
} from "../../../src/poll/coverage.sql.ts";
import { acquireLease, LeaseLostError, type Lease } from "../../../src/database/leases.sql.ts";
import { finishRequests } from "../../../src/poll/periodRequests.sql.ts";
import { beginCycle, beginPolling } from "../../../src/poll/pollState.sql.ts";
import {
  completeRefetch,
  noteRefetchFailure,
  requestRefetches,
  takeRefetches,
} from "../../../src/poll/refetches.sql.ts";
import { beside } from "../../support/servers/database.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { removeOlder } from "../../support/mirror/retention.ts";
import { emptying, makeRead } from "../../support/mirror/tables.ts";

const { pool, read } = await openLiveMirror({ statementTimeoutMs: 10_000 });
await addSource(pool, "other");

let lease: Lease;

beforeEach(async () => {
  await pool.query(emptying("refetches coverage_breaches orders history quarantine period_requests"));
  await begin(0n);
});

/** A source without windows, with a history from then on, and its leader. */
async function begin(historySince: bigint): Promise<void> {
  await pool.query(emptying("leases poll_state coverage retention_walks"));
  lease = (await acquireLease(pool, { name: "poll:live", holder: "a", ttlMs: 15_000 }))!;
  await beginPolling(pool, lease, { sourceId: "live", historySince, polledThrough: historySince });
}
interface Shown {
  readonly listed?: readonly string[] | null;
  readonly orders?: number;
}
/** Whatever was walked so far. */
const ALL = 2n ** 62n;
/** A window that was walked to its end, and then the head sweep that makes it a proof. */
const walk = (window: Window, { listed = null, orders = 1 }: Shown = {}, sweep = "proof") =>
  recordWalked(pool, lease, {
    sourceId: "live",
    sweep,
    read: makeRead(window, { orders, durationMs: 5, listed }),
  });
const head = (more: Partial<HeadWindow> = {}) =>
  commitHead(pool, lease, { sourceId: "live", since: -100n, cursor: 0n, orders: 0, closes: ALL, ...more });
const prove = async (since: bigint, until: bigint) => {
  await walk({ since, until });
  return head();
};
/** Removes what is old enough, a few rows at a time, once all windows have aged. */
const removeOld = async (aged = "10 days") => {
  await pool.query(`update mirror.coverage set ended_at = ended_at - interval '${aged}'`);
  return (await removeOlder(pool, { stepRows: 4 })).removed;
};
/** Windows of another source, proved and walked, which count for nothing. */
const coverOther = () =>
  pool.query(
    `insert into mirror.coverage (source_id, since, until, sweep, proved, awaits_head, fence, requests, orders)
     select 'other', 0, 1000, 'proof', proved, not proved, 0, 1, 1 from unnest(array[true, false]) as proved`,
  );
const CYCLE = {
  sourceId: "live",
  mode: "live",
  provider: "ours",
  intervalMs: 30_000,
  quietMs: 0,
  marginSeconds: 300,
} as const;

it("a window cannot be committed while the lease changes hands", async () => {
  const taking =
    "update mirror.leases set holder = 'new', fence = fence + 1, expires_at = now() + interval '1 h'";
  const late = beside(
    pool,
    (taker) => taker.query(taking),
    () => head(),
  );
  await expect(late).rejects.toThrow(LeaseLostError);
});

describe("a cycle", () => {
  it("does not start while the source is paused, or belongs to another mode or provider", async () => {
    await pool.query("update mirror.sources set paused_at = now()");
    expect(await beginCycle(pool, lease, CYCLE)).toMatchObject({ kind: "paused" });
    await pool.query("update mirror.sources set paused_at = null, provider = 'another'");
    expect(await beginCycle(pool, lease, CYCLE)).toMatchObject({ kind: "foreign" });
    expect(await beginCycle(pool, lease, { ...CYCLE, mode: "test", provider: "another" })).toMatchObject({
      kind: "foreign",
    });
    await pool.query("update mirror.sources set provider = null");
    expect(await beginCycle(pool, lease, CYCLE)).toMatchObject({ kind: "begun" });
  });
  it("is not delayed by a last start in the future, after the clock was set back", async () => {
    await pool.query("update mirror.poll_state set last_cycle_started_at = now() + interval '1 hour'");
    expect(await beginCycle(pool, lease, CYCLE)).toMatchObject({
      kind: "begun",
    });
  });
});

describe("the ledger", () => {
  it("makes proofs of walked windows only with a head sweep that reaches back to their end", async () => {
    await walk({ since: 0n, until: 20n });
    expect(await readWalked(pool, "live")).toEqual({ upTo: expect.any(BigInt) as unknown, reach: 20n });
    expect(await head({ closes: null, cursor: 7n })).toMatchObject({
      polledThrough: 7n,
      safeThrough: null,
    });
    expect(await head({ since: 21n })).toMatchObject({ safeThrough: null });
    expect(await head({ since: 20n })).toMatchObject({ safeThrough: 20n });
    expect(await readWalked(pool, "live")).toEqual({ upTo: null, reach: null });
  });
  it("counts no window of another source, whatever it is", async () => {
    await coverOther();
    expect(await readWalked(pool, "live")).toEqual({ upTo: null, reach: null });
    expect((await prove(0n, 5n)).safeThrough).toBe(5n);
    expect(
      await read("select proved, awaits_head from mirror.coverage where source_id = 'other' order by proved"),
    ).toEqual([
      { proved: false, awaits_head: true },
      { proved: true, awaits_head: false },
    ]);
  });
  it("lowers history_since to the start of what is proved without a gap", async () => {
    await begin(100n);
    expect(await prove(50n, 80n)).toMatchObject({ historySince: 100n });
    expect(await prove(80n, 100n)).toMatchObject({ historySince: 50n });
  });
  it("closes a breach only when all of its period is proved again", async () => {
    await pool.query(
      `insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
       values ('live', 10, 30, 'missed_change', 'R1', 20, 'poll', '')`,
    );
    await coverOther();
    const readReproved = async () =>
      (await read("select reproved_at::text as at from mirror.coverage_breaches"))[0]?.["at"];
    await prove(0n, 20n);
    expect(await readReproved()).toBeNull();
    await prove(20n, 30n);
    const reprovedAt = await readReproved();
    expect(reprovedAt).not.toBeNull();
    // It was then, however often it is proved since.
    await prove(0n, 30n);
    expect(await readReproved()).toBe(reprovedAt);
  });
  describe("when the list omits an order of the mirror", () => {
    const WINDOW = { since: 0n, until: 10n };
    const omit = (orders = 1) => walk(WINDOW, { listed: [], orders });
    const readDoubt = async () =>
      (
        await read(
          "select list_doubted_at is not null as doubted, list_emptied_at is not null as emptied from mirror.poll_state",
        )
      )[0];
    const ask = () => read("select reference, unconfirmed from mirror.refetches where source_id = 'live'");
    /** A single read shows it, a margin after its first omission. */
    async function showSingly(): Promise<void> {
      await pool.query("update mirror.refetches set omitted_at = omitted_at - interval '1 hour'");
      const [refetch] = await takeRefetches(pool, { sourceId: "live", limit: 1 });
      await completeRefetch(pool, {
        sourceId: "live",
        refetch: refetch!,
        shown: 5n,
        differed: false,
        marginSeconds: 300,
      });
    }
    /** With an order that a read has shown, or, without a horizon, an event alone claims. */
    const setUp = async (horizon: number | null = 5) => {
      await pool.query("update mirror.poll_state set margin_seconds = 300");
      await pool.query(
        `insert into mirror.orders (source_id, reference, first_seen_via, version, horizon, observed_at, updated_at,
           history_id, rank, settled, hash, status, raw)
         values ('live', 'R1', 'poll', 5, $1, 5, now(), 0, 0, $1::bigint is not null, '', 'created', '{}')`,
        [horizon],
      );
      // What another source has of an order with this reference says nothing of it.
      await pool.query(`
        insert into mirror.refetches (source_id, reference, reason, missed_at) values ('other', 'R1', '', 1);
        insert into mirror.quarantine (source_id, via, reference, reason) values ('other', 'refetch', 'R1', '')`);
    };

    it("doubts no whole list because of what events alone claim", async () => {
      await setUp(null);
      await omit(0);
      await head();
      expect(await readDoubt()).toEqual({ doubted: true, emptied: false });
      // Nor once two answers have shown that there is none.
      await pool.query(`insert into mirror.history (source_id, reference, via, verdict)
        values ('live', 'R1', 'webhook', 'applied'), ('live', 'R1', 'refetch', 'gone')`);
      await pool.query("update mirror.orders set gone_at = now(), horizon = 6");
      await omit(0);
      await head();
      expect(await readDoubt()).toEqual({ doubted: false, emptied: false });
    });
    it.each([5, null])("proves nothing and asks for it, until it is gone (horizon: %s)", async (horizon) => {
      await setUp(horizon);
      await omit();
      await walk({ since: 10n, until: 20n });
      expect(await head()).toMatchObject({ safeThrough: null, isListDoubted: true });
      expect(await ask()).toEqual([{ reference: "R1", unconfirmed: true }]);
      expect(await readDoubt()).toEqual({ doubted: true, emptied: false });
      expect(await read("select from mirror.coverage")).toEqual([]);
      // A head sweep that closes no window shows nothing of the doubt.
      expect(await head()).toMatchObject({ isListDoubted: true });
      await pool.query("update mirror.orders set gone_at = now(), horizon = 6");
      await omit();
      expect(await head()).toMatchObject({ safeThrough: 10n, isListDoubted: false });
      expect(await readDoubt()).toEqual({ doubted: false, emptied: false });
    });
    it("proves again, and remembers nothing, once a single read has shown it a margin after", async () => {
      await setUp();
      // As a clock that was wrong has put it off.
      await requestRefetches(pool, { sourceId: "live", references: ["R1"], reason: "asked" });
      await pool.query("update mirror.refetches set next_attempt_at = now() + interval '6 hours'");
      await omit();
      await head();
      await showSingly();
      expect(await ask()).toEqual([{ reference: "R1", unconfirmed: false }]);
      await omit();
      expect(await head()).toMatchObject({ safeThrough: 10n, isListDoubted: false });
      expect(await ask()).toEqual([]);
      // The proof knows that it is never listed.
      await omit();
      expect(await head()).toMatchObject({ isListDoubted: false });
      expect(await ask()).toEqual([]);
      // It was made by pages that showed others, and says nothing of pages that show none.
      await omit(0);
      expect(await head({ orders: 1 })).toMatchObject({ isListDoubted: true });
    });
    it("waits a day where the pages of a window show no other order, although the list shows others", async () => {
      await setUp();
      const omitAll = async () => {
        await omit(0);
        return (await head({ orders: 1 })).isListDoubted;
      };
      await omitAll();
      const readSince = () => read("select list_doubted_at::text from mirror.poll_state");
      const since = await readSince();
      await showSingly();
      expect(await omitAll()).toBe(true);
      // In doubt since the first of these.
      expect(await readSince()).toEqual(since);
      expect(await readDoubt()).toEqual({ doubted: true, emptied: false });
      await pool.query("update mirror.refetches set omitted_at = omitted_at - interval '1 day'");
      expect(await omitAll()).toBe(false);
    });
    it("takes an order that cannot be read singly for an exception: a claim at once, another one in quarantine", async () => {
      const fail = async () => {
        const [refetch] = await takeRefetches(pool, { sourceId: "live", limit: 1 });
        const failure = { sourceId: "live", refetch: refetch!, error: "away", firstWaitMs: 0 };
        await noteRefetchFailure(pool, failure);
      };
      const isDoubted = async () => {
        await omit();
        return (await head()).isListDoubted;
      };
      await setUp(null);
      expect(await isDoubted()).toBe(true);
      await fail();
      expect(await isDoubted()).toBe(false);
      expect(await ask()).toEqual([{ reference: "R1", unconfirmed: true }]);
      await pool.query("update mirror.orders set settled = true, horizon = 5; delete from mirror.coverage");
      expect(await isDoubted()).toBe(true);
      for (let failures = 2; failures <= 5; failures += 1) await fail();
      expect(await isDoubted()).toBe(false);
      await pool.query("update mirror.quarantine set inbox_seq = 1; delete from mirror.coverage");
      expect(await isDoubted()).toBe(true);
    });
    it("counts of a window what is still in it, and doubts an empty one that single reads have emptied", async () => {
      await setUp();
      const move = (version: number) =>
        pool.query("update mirror.orders set version = $1, horizon = $1, observed_at = $1", [version]);
      // Where there is nothing to show, nothing is missing.
      await walk({ since: 40n, until: 50n }, { listed: [], orders: 0 });
      expect(await head()).toMatchObject({ isListDoubted: false });
      await omit();
      await move(15);
      expect(await head()).toMatchObject({ safeThrough: 10n, isListDoubted: false });
      await walk({ since: 10n, until: 20n }, { listed: [] });
      expect(await head()).toMatchObject({ isListDoubted: true });
      await showSingly();
      await move(25);
      await walk({ since: 10n, until: 20n }, { listed: [], orders: 0 });
      expect(await head()).toMatchObject({ safeThrough: 10n, isListDoubted: true });
      expect(await readDoubt()).toEqual({ doubted: true, emptied: true });
    });
    it("says nothing of orders where the pages had too many to keep", async () => {
      await setUp();
      await walk(WINDOW, { listed: null });
      expect(await head()).toMatchObject({ safeThrough: 10n, isListDoubted: false });
    });
    it.each([
      ["when single reads show them", async () => undefined],
      ["when they are gone since", () => pool.query("update mirror.orders set gone_at = now(), horizon = 6")],
    ])("doubts a list that shows none of its orders for a day, also %s", async (_, happen) => {
      await setUp();
      await pool.query(
        `insert into mirror.history (source_id, reference, via, verdict) values ('live', 'R1', 'poll', 'applied')`,
      );
      await omit(0);
      expect(await head()).toMatchObject({ safeThrough: null, isListDoubted: true });
      await showSingly();
      await happen();
      await omit(0);
      expect(await head()).toMatchObject({ safeThrough: null, isListDoubted: true });
      expect(await readDoubt()).toEqual({ doubted: true, emptied: true });
      await pool.query("update mirror.poll_state set list_emptied_at = list_emptied_at - interval '1 day'");
      await pool.query("update mirror.refetches set omitted_at = omitted_at - interval '1 day'");
      await omit(0);
      expect(await head()).toMatchObject({ safeThrough: 10n, isListDoubted: false });
      expect(await readDoubt()).toEqual({ doubted: false, emptied: true });
      // What it shows then ends the emptiness.
      await walk({ since: 10n, until: 20n });
      await head();
      expect(await readDoubt()).toEqual({ doubted: false, emptied: false });
    });
    it("counts for a request only its own windows that prove nothing", async () => {
      await setUp();
      await pool.query(
        `insert into mirror.period_requests (source_id, kind, since, until, read_down_to, state)
         values ('live', 'verification', 0, 20, 0, 'running')`,
      );
      const readUnproved = () => read("select unproved from mirror.period_requests");
      await omit();
      await head();
      expect(await readUnproved()).toEqual([{ unproved: 0 }]);
      await walk(WINDOW, { listed: [] }, "verify");
      await walk({ since: 20n, until: 30n }, {}, "backfill");
      await head();
      expect(await readUnproved()).toEqual([{ unproved: 1 }]);
    });
  });
  it("ends a request when its own windows are closed, whatever else is walked meanwhile", async () => {
    await pool.query(
      `insert into mirror.period_requests (source_id, kind, since, until, read_down_to, state)
       values ('live', 'verification', 0, 10, 0, 'running')`,
    );
    const finish = async () => {
      await finishRequests(pool, lease, "live");
      return read("select state from mirror.period_requests");
    };
    await walk({ since: 5n, until: 10n }, {}, "verify");
    const { upTo } = await readWalked(pool, "live");
    // Of the proof sweep, and of a later request.
    await walk({ since: 0n, until: 8n });
    await walk({ since: 8n, until: 20n }, {}, "backfill");
    expect(await finish()).toEqual([{ state: "running" }]);
    await head({ closes: upTo });
    expect(await finish()).toEqual([{ state: "done" }]);
  });
  it("makes no proof of a window that was walked after the head sweep began", async () => {
    await walk({ since: 0n, until: 10n });
    const { upTo } = await readWalked(pool, "live");
    await walk({ since: 10n, until: 20n });
    expect(await head({ since: 0n, closes: upTo })).toMatchObject({ safeThrough: 10n });
    expect(await head({ since: 0n })).toMatchObject({ safeThrough: 20n });
  });
  it("records nothing under a lease that was taken before the database was restored", async () => {
    await pool.query("update mirror.leases set server = 'before'");
    await expect(walk({ since: 0n, until: 10n })).rejects.toThrow(LeaseLostError);
    expect(await acquireLease(pool, { name: "poll:live", holder: "b", ttlMs: 15_000 })).toMatchObject({
      holder: "b",
    });
  });
  it("has old windows removed that the claim covers or that prove nothing, and keeps recent ones", async () => {
    for (let since = 0n; since < 9n; since += 1n) await prove(since, since + 1n);
    await walk({ since: 20n, until: 25n });
    await pool.query("update mirror.coverage set awaits_head = false");
    await prove(30n, 40n);
    expect(await removeOld("1 day")).toBe(0);
    expect(await removeOld()).toBe(10);
    expect(await read("select since from mirror.coverage")).toEqual([{ since: "30" }]);
  });
  it("agrees with the arithmetic of its model, whenever old windows are removed", async () => {
    const kind = fc.constantFrom("proved", "proved, and old ones removed", "walked", "resting");
    const window = fc
      .tuple(fc.bigInt({ min: -20n, max: 40n }), fc.bigInt({ min: 1n, max: 15n }), kind)
      .map(([since, length, as]) => ({ since, until: since + length, as }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(window, { maxLength: 8 }),
        fc.bigInt({ min: -20n, max: 20n }),
        async (windows, from) => {
          await begin(from);
          const having = (as: string) => windows.filter((one) => one.as === as);
          const proved = windows.filter(({ as }) => as.startsWith("proved"));
          let expected = from;
          for (const [index, { since, until, as }] of proved.entries()) {
            const before = expected;
            expected = safeThrough(expected, proved.slice(0, index + 1));
            const { safeThrough: actual, historySince } = await prove(since, until);
            expect(historySince).toBeLessThanOrEqual(from);
            expect(actual ?? from).toBe(expected);
            expect(expected).toBeGreaterThanOrEqual(before);
            if (as !== "proved") await removeOld();
          }
          for (const { since, until } of having("walked")) await walk({ since, until });
          const within = { since: -30n, until: 60n };
          const query = { sourceId: "live", within, limit: 100 };
          const left = gaps(within, proved);
          expect(await readGaps(pool, query)).toEqual(left);
          expect(await readGaps(pool, { ...query, limit: 1 })).toEqual(left.slice(0, 1));
          expect(await readGaps(pool, { ...query, sourceId: "other" })).toEqual([within]);
          const unread = { ...query, newestFirst: true, resting: having("resting") };
          expect(await readGaps(pool, unread)).toEqual(gaps(within, windows).toReversed());
        },
      ),
      { numRuns: 60, seed: 20_261_120 },
    );
  });
});
