import { describe, expect, it, onTestFinished } from "vitest";
import type { Window } from "../../../src/domain/window/window.ts";
import { cancelRequest, readRequest, requestPeriod } from "../../../src/poll/periodRequests.sql.ts";
import type { PollDeps } from "../../../src/poll/pollDeps.ts";
import { PollerClosedError, type Poller } from "../../../src/poll/poller.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";

const WAIT = { timeout: 100_000, interval: 50 };
const DAY = 86_400;
const floor = (instant: bigint) => (instant / 10n ** 9n) * 10n ** 9n;
const daysAgo = (days: number) => floor(secondsAgo(days * DAY));

async function startWorld(more: Partial<PollDeps> = {}) {
  const { pool, listReferences } = await openLiveMirror({
    max: 6,
    statementTimeoutMs: 10_000,
    ends: onTestFinished,
  });
  const provider = makeMemoryProvider();
  const startPoller = (own: Partial<PollDeps> = {}) => {
    const poller = makeLivePoller({ client: provider, pool, backfillSince: "PT1M", ...more, ...own });
    void keepPolling(poller);
    return poller;
  };
  const ask = (window: Window) => requestPeriod(pool, { kind: "backfill", sourceId: "live", ...window });
  const state = async (backfillId: bigint) => (await readRequest(pool, backfillId))?.state;
  const progress = async () =>
    (
      await pool.query<{ history_since: string; safe_through: string; polled_through: string }>(
        "select history_since, safe_through, polled_through from mirror.poll_state",
      )
    ).rows[0];
  return { pool, provider, startPoller, ask, state, listReferences, progress };
}

/** Runs cycles as `start` does, without the second between them. */
async function keepPolling(poller: Poller): Promise<void> {
  try {
    for (;;) {
      const { outcome } = await poller.runOnce();
      if (outcome !== "polled") await systemClock.sleep(20);
    }
  } catch (error) {
    if (!(error instanceof PollerClosedError)) throw error;
  }
}

describe("a requested backfill", () => {
  it("reads the period and extends the complete history back to it", async () => {
    const world = await startWorld();
    for (const days of [1, 5, 9.9, 10.1]) {
      world.provider.put(`D${days}`, secondsAgo(days * DAY));
    }
    world.startPoller();
    await expect.poll(async () => (await world.progress())?.safe_through, WAIT).toBeTruthy();
    const since = daysAgo(10);
    const backfillId = await world.ask({ since, until: floor(systemClock.now()) });
    await expect.poll(() => world.state(backfillId), WAIT).toBe("done");
    expect(await world.listReferences()).toEqual(["D1", "D5", "D9.9"]);
    const after = await world.progress();
    expect(BigInt(after!.history_since)).toBe(since);
    expect(BigInt(after!.polled_through)).toBeGreaterThan(daysAgo(0.01));
    expect(await readRequest(world.pool, backfillId)).toMatchObject({ orders: 3, unproved: 0 });
  });

  it("joins the history of a new source, whose beginning is too recent to be proved", async () => {
    const world = await startWorld();
    const since = daysAgo(1);
    const backfillId = await world.ask({ since, until: floor(systemClock.now()) + 60n * 10n ** 9n });
    world.startPoller({ backfillSince: "PT0S" });
    await expect.poll(() => world.state(backfillId), WAIT).toBe("done");
    expect(BigInt((await world.progress())!.history_since)).toBe(since);
  });

  it("claims nothing across a period that was never read", async () => {
    const world = await startWorld();
    world.provider.put("old", secondsAgo(9 * DAY));
    world.startPoller();
    await expect.poll(async () => (await world.progress())?.safe_through, WAIT).toBeTruthy();
    const before = (await world.progress())!.history_since;
    const apart = await world.ask({ since: daysAgo(10), until: daysAgo(8) });
    await expect.poll(() => world.state(apart), WAIT).toBe("done");
    expect(await world.listReferences()).toEqual(["old"]);
    expect((await world.progress())!.history_since).toBe(before);
    const between = await world.ask({ since: daysAgo(8), until: daysAgo(0) });
    await expect.poll(() => world.state(between), WAIT).toBe("done");
    // The two periods touch only at a whole second; the older one may begin a second earlier.
    expect(BigInt((await world.progress())!.history_since)).toBeLessThanOrEqual(daysAgo(8));
  });

  it("continues under the next leader where the last one stopped", async () => {
    const world = await startWorld();
    for (let day = 1; day < 40; day += 1) world.provider.put(`D${day}`, secondsAgo(day * DAY));
    world.provider.limitMax = 1;
    const first = world.startPoller();
    const backfillId = await world.ask({ since: daysAgo(40), until: daysAgo(0) });
    await expect
      .poll(async () => (await readRequest(world.pool, backfillId))!.orders, WAIT)
      .toBeGreaterThan(3);
    await first.close();
    const stopped = (await readRequest(world.pool, backfillId))!;
    expect(stopped.state).toBe("running");
    const reads = world.provider.reads.length;
    world.startPoller();
    await expect.poll(() => world.state(backfillId), WAIT).toBe("done");
    // Besides, what borders on the proved part begins at the last known orders.
    const again = world.provider.reads
      .slice(reads)
      .filter(({ query }) => query.until < daysAgo(4) && query.since > stopped.readDownTo + 2n * 10n ** 9n);
    expect(again).toEqual([]);
    expect(await world.listReferences()).toHaveLength(39);
  });

  it("stops when it is cancelled, and fails after repeated failures", async () => {
    const world = await startWorld();
    world.provider.put("old", secondsAgo(5 * DAY));
    const cancelled = await world.ask({ since: daysAgo(9), until: daysAgo(8) });
    expect(await cancelRequest(world.pool, cancelled)).toBe(true);
    expect(await cancelRequest(world.pool, cancelled)).toBe(false);
    world.provider.before = () => {
      const { query } = world.provider.reads.at(-1)!;
      if (query.since > daysAgo(2)) return;
      throw new ProviderError("the past is away", { failure: "unavailable" });
    };
    const failing = await world.ask({ since: daysAgo(9), until: daysAgo(2.5) });
    const next = await world.ask({ since: daysAgo(1.5), until: daysAgo(1) });
    world.startPoller({ intervalSeconds: 0.005 });
    await expect.poll(() => world.state(failing), WAIT).toBe("failed");
    expect(await readRequest(world.pool, failing)).toMatchObject({
      lastError: "the past is away",
      orders: 0,
    });
    expect(await world.state(cancelled)).toBe("cancelled");
    expect(await world.listReferences()).toEqual([]);
    // It has given way to the one after it.
    const ended =
      "select request_id from mirror.period_requests where state <> 'cancelled' order by ended_at";
    const { rows } = await world.pool.query<{ request_id: string }>(ended);
    expect(rows.map(({ request_id }) => BigInt(request_id))).toEqual([next, failing]);
  });
});
