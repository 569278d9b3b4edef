import { expect, it, vi } from "vitest";
import { requestRefetches } from "../../../src/poll/refetches.sql.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";

const { pool } = await openLiveMirror({ statementTimeoutMs: 10_000 });
const UNDER_WAY_NANOS = 200_000_000n;

it("stamps a read with the instant of its request, however long the answer takes", async () => {
  const provider = makeMemoryProvider();
  // Too old for any window.
  provider.put("SINGLE", secondsAgo(7_200));
  await requestRefetches(pool, { sourceId: "live", references: ["SINGLE"], reason: "test" });
  const askedAt = new Map<string, bigint[]>([
    ["LISTED", []],
    ["SINGLE", []],
  ]);
  provider.before = async () => {
    // In the first window, whenever that is requested.
    const [first] = provider.reads;
    if (first !== undefined && askedAt.get("LISTED")!.length === 0) provider.put("LISTED", first.query.since);
    const name = provider.singleReads.length > 0 ? "SINGLE" : "LISTED";
    // The provider's clock gives each request its own instant, which may be ahead of the machine's.
    const now = provider.providerClock.providerNow();
    askedAt.get(name)!.push(now);
    await vi.waitUntil(() => systemClock.now() > now + UNDER_WAY_NANOS, { timeout: 60_000, interval: 10 });
  };
  const poller = makeLivePoller({ client: provider, pool, intervalSeconds: 60, backfillSince: "PT1M" });
  expect(await poller.runOnce()).toMatchObject({ outcome: "polled", refetches: 1 });
  const { rows } = await pool.query<{ reference: string; observed_at: string }>(
    "select reference, observed_at from mirror.orders order by reference",
  );
  expect(rows.map(({ reference }) => reference)).toEqual(["LISTED", "SINGLE"]);
  for (const { reference, observed_at } of rows) {
    const sinceAsked = askedAt.get(reference)!.map((asked) => asked - BigInt(observed_at));
    expect(sinceAsked.filter((nanos) => nanos >= 0n && nanos < UNDER_WAY_NANOS)).not.toEqual([]);
  }
});
