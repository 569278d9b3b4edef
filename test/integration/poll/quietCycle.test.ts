import pg from "pg";
import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
import type { Pool } from "../../../src/database/database.ts";
import type { Poller } from "../../../src/poll/poller.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import {
  makeMemoryProvider,
  secondsAgo,
  type MemoryProvider,
} from "../../support/providers/memoryProvider.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";

/** Begins the cycle, commits the window without orders, ends the cycle. */
const OF_QUIET_CYCLE = [
  /begun as \(\s+update mirror\.poll_state/,
  /set polled_through = /,
  /last_cycle_ended_at/,
];
const OF_PROOF = /reproved as \(/;
/** Sent from time to time, in any cycle. */
const OF_LEASE = /^update mirror\.leases/;

let pool: Pool;
let provider: MemoryProvider;
let poller: Poller;

beforeEach(async () => {
  ({ pool } = await openLiveMirror({ max: 6, statementTimeoutMs: 10_000, ends: onTestFinished }));
  provider = makeMemoryProvider();
  poller = makeLivePoller({
    client: provider,
    pool,
    intervalSeconds: 0.05,
    backfillSince: "P3D",
  });
  onTestFinished(() => poller.close());
});

const one = async <Row>(text: string): Promise<Row> => (await pool.query(text)).rows[0] as Row;

/** Runs one cycle as soon as it is due. */
async function cycle(): Promise<void> {
  for (;;) {
    const { outcome, waitMs } = await poller.runOnce();
    if (outcome === "polled") return;
    await systemClock.sleep(Math.max(1, waitMs));
  }
}

async function cycleUntil(reached: () => Promise<boolean>): Promise<void> {
  await vi.waitUntil(
    async () => {
      await cycle();
      return reached();
    },
    { timeout: 60_000, interval: 1 },
  );
}

const safeThrough = async () =>
  BigInt(
    (await one<{ safe: string | null }>("select safe_through as safe from mirror.poll_state")).safe ?? 0,
  );
const isCaughtUp = async () => (await safeThrough()) > secondsAgo(60);

/** The texts of all statements that this process sends. */
function watchStatements(): { take(): string[] } {
  const spy = vi.spyOn(pg.Client.prototype, "query");
  onTestFinished(() => spy.mockRestore());
  return {
    take() {
      const texts = spy.mock.calls.map(([statement]: readonly unknown[]) =>
        typeof statement === "string" ? statement : String((statement as { text?: unknown }).text),
      );
      spy.mockClear();
      return texts;
    },
  };
}

it("takes three statements while nothing changes", async () => {
  provider.put("A", secondsAgo(3_600));
  await cycleUntil(isCaughtUp);
  // What the last news has left to do.
  for (let settling = 0; settling < 3; settling += 1) await cycle();
  const statements = watchStatements();
  let quiet = 0;
  for (let cycles = 0; cycles < 40; cycles += 1) {
    statements.take();
    await cycle();
    const texts = statements.take();
    if (texts.some((text) => OF_PROOF.test(text))) continue;
    quiet += 1;
    // A cycle that begins too early is begun again.
    expect(texts.filter((text, index) => !OF_LEASE.test(text) && text !== texts[index - 1])).toEqual(
      OF_QUIET_CYCLE.map((text) => expect.stringMatching(text) as unknown),
    );
  }
  expect(quiet).toBeGreaterThan(10);
});

it("works again after news: a change, a breach", async () => {
  provider.put("A", secondsAgo(3_600));
  await cycleUntil(isCaughtUp);
  provider.put("A", secondsAgo(0), { status: "picked_up" });
  await cycleUntil(
    async () =>
      (await one<{ status: string }>("select status from mirror.orders where reference = 'A'")).status ===
      "picked_up",
  );
  const dayAgo = String(secondsAgo(86_400));
  await pool.query("select mirror.withdraw_proof('live', $1, 'late_event', 'A', 'refetch', '')", [dayAgo]);
  const open = "select count(*)::int as open from mirror.coverage_breaches where reproved_at is null";
  expect(await one(open)).toEqual({ open: 1 });
  await cycleUntil(async () => (await one<{ open: number }>(open)).open === 0);
});
