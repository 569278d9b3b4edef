import { expect, it } from "vitest";
import { readMargins } from "../../src/poll/ledger/arrivals.sql.ts";
import { readBreaches } from "../../src/poll/ledger/breaches.sql.ts";
import { startVirtualWorld } from "../support/virtualTime.ts";

const MINUTE_MS = 60_000;
const EVERY = { sourceId: "live", after: 0n, limit: 100 };
const LOOK_EVERY_MS = 15_000;

it("reaches back further where changes appear late in the list, and takes none for late where they do not", async () => {
  const { clock, pool, sandbox, differences, startPoller } = await startVirtualWorld({
    speed: 4,
    trafficPerMinute: 6,
  });
  startPoller("only");
  await clock.runUntil(12 * MINUTE_MS);
  expect(await readMargins(pool, "live")).toEqual({ settleSeconds: 5, overlapSeconds: 60, tailSeconds: 0 });
  expect(await readBreaches(pool, EVERY)).toEqual([]);
  sandbox.setFaults({ lateCommitShare: 0.3, lateCommitMs: 50_000 });
  await clock.runUntil(24 * MINUTE_MS);
  const margins = await readMargins(pool, "live");
  // Seen by the first or second poll after their 50 seconds; and the bound of the ages that are distinguished.
  expect(margins!.tailSeconds).toBeGreaterThanOrEqual(60);
  expect(margins!.tailSeconds).toBeLessThanOrEqual(120);
  expect(margins!.overlapSeconds).toBe(2 * margins!.tailSeconds);
  expect(margins!.settleSeconds).toBe(15);
  expect(await differences(sandbox.now() - 120n * 10n ** 9n)).toEqual([]);
}, 300_000);

it("claims nothing false after a change of leader, since a term begins with the margins that were learned", async () => {
  const { clock, pool, sandbox, differences, startPoller } = await startVirtualWorld({
    speed: 4,
    trafficPerMinute: 6,
  });
  async function countFalseClaims(lookMs: number): Promise<number[]> {
    const counts: number[] = [];
    for (const endMs = clock.monotonicMs() + lookMs; clock.monotonicMs() < endMs;) {
      await clock.runUntil(clock.monotonicMs() + LOOK_EVERY_MS);
      const { rows } = await pool.query<{ safe: string }>(
        "select coalesce(safe_through, 0) as safe from mirror.poll_state",
      );
      counts.push((await differences(BigInt(rows[0]!.safe))).length);
    }
    return counts;
  }
  const none = (counts: readonly number[]) => counts.map(() => 0);

  sandbox.setFaults({ lateCommitShare: 0.3, lateCommitMs: 240_000 });
  const first = startPoller("first");
  await clock.runUntil(30 * MINUTE_MS);
  expect(await readMargins(pool, "live")).toMatchObject({ settleSeconds: 15, overlapSeconds: 600 });
  const before = await countFalseClaims(2 * MINUTE_MS);
  expect(before).toEqual(none(before));
  const found = await readBreaches(pool, EVERY);
  first.kill();
  startPoller("second");
  const after = await countFalseClaims(4 * MINUTE_MS);
  expect(after).toEqual(none(after));
  // Those from before the margins were learned; no claim since then was contradicted.
  expect(found).not.toEqual([]);
  expect((await readBreaches(pool, EVERY)).length).toBe(found.length);
}, 300_000);
