import { expect, it } from "vitest";
import { readPollState } from "../../../src/poll/ledger/pollState.sql.ts";
import { startVirtualWorld } from "../../support/virtual/virtualTime.ts";

const MINUTE_MS = 60_000;

it.each([
  ["cycle", 11, 120],
  // A page every half minute: with more changes than that allows to follow, nothing would be claimed at all.
  ["request", 25, 20],
] as const)(
  "safe_through claims no change that the mirror lacks, also of orders that move on while they are read, at the pace %s",
  async (pace, minutes, trafficPerMinute) => {
    const world = await startVirtualWorld({ speed: 1, trafficPerMinute });
    const { clock, pool, steer } = world;
    // Under way now: they change, and leave their windows, while the history is read.
    await steer("POST", "/seed", { orders: 500 });
    world.startPoller("one", { pace });
    const looks: { claimed: bigint; wrong: string[] }[] = [];
    for (let second = 1; second <= minutes * 60; second += minutes > 11 ? 3 : 1) {
      await clock.runUntil(second * 1_000);
      const claimed = (await readPollState(pool, "live"))?.safeThrough ?? 0n;
      looks.push({ claimed, wrong: await world.falseClaims(claimed) });
    }
    expect(looks.filter(({ wrong }) => wrong.length > 0)).toEqual([]);
    expect(new Set(looks.map(({ claimed }) => claimed)).size).toBeGreaterThan(2);
  },
  20 * MINUTE_MS,
);
