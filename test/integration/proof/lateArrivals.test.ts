import { expect, it } from "vitest";
import { readMargins } from "../../../src/poll/ledger/arrivals.sql.ts";
import { readBreaches } from "../../../src/poll/ledger/breaches.sql.ts";
import { startVirtualWorld } from "../../support/virtual/virtualTime.ts";

const MINUTE_MS = 60_000;
const EVERY = { sourceId: "live", after: 0n, limit: 100 };
const LOOK_EVERY_MS = 5_000;

it("widens the margins when changes appear late in the list, and counts none as late otherwise", async () => {
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
  // The first or second poll after the 50 seconds sees them; the upper bound is that of their age class.
  expect(margins!.tailSeconds).toBeGreaterThanOrEqual(60);
  expect(margins!.tailSeconds).toBeLessThanOrEqual(120);
  expect(margins!.overlapSeconds).toBe(2 * margins!.tailSeconds);
  expect(margins!.settleSeconds).toBe(15);
  expect(await differences(sandbox.now() - 120n * 10n ** 9n)).toEqual([]);
});

it("claims nothing false in an hour with a late provider while leaders are killed and frozen", async () => {
  const { clock, pool, sandbox, differences, startPoller } = await startVirtualWorld({
    speed: 4,
    trafficPerMinute: 6,
  });
  const falseClaims: string[] = [];
  let looks = 0;
  async function lookFor(lookMs: number): Promise<void> {
    for (const endMs = clock.monotonicMs() + lookMs; clock.monotonicMs() < endMs; looks += 1) {
      await clock.runUntil(clock.monotonicMs() + LOOK_EVERY_MS);
      const { rows } = await pool.query<{ safe: string }>(
        "select coalesce(safe_through, 0) as safe from mirror.poll_state",
      );
      falseClaims.push(...(await differences(BigInt(rows[0]!.safe))));
    }
  }
  const readLeader = async () =>
    (await pool.query<{ holder: string }>("select holder from mirror.leases where name = 'poll:live'"))
      .rows[0]?.holder;

  sandbox.setFaults({ lateCommitShare: 0.3, lateCommitMs: 240_000 });
  const first = startPoller("first");
  await clock.runUntil(30 * MINUTE_MS);
  expect(await readMargins(pool, "live")).toMatchObject({ settleSeconds: 15, overlapSeconds: 600 });
  const found = await readBreaches(pool, EVERY);
  // Breaches from before the margins were learned.
  expect(found).not.toEqual([]);

  await lookFor(2 * MINUTE_MS);
  first.kill();
  const second = startPoller("second");
  await lookFor(13 * MINUTE_MS);
  expect(await readLeader()).toBe("second");
  second.freeze();
  const third = startPoller("third");
  await lookFor(10 * MINUTE_MS);
  // It continues what it was doing, as if it still led.
  second.thaw();
  await lookFor(10 * MINUTE_MS);
  expect(await readLeader()).toBe("third");
  third.kill();
  second.kill();
  const fourth = startPoller("fourth");
  await lookFor(10 * MINUTE_MS);
  fourth.kill();
  startPoller("fifth");
  await lookFor(15 * MINUTE_MS);
  expect(await readLeader()).toBe("fifth");

  expect(looks).toBe((60 * MINUTE_MS) / LOOK_EVERY_MS);
  expect(falseClaims).toEqual([]);
  // No later claim was contradicted.
  expect(await readBreaches(pool, EVERY)).toHaveLength(found.length);
}, 600_000);
