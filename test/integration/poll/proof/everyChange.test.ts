import { expect, it } from "vitest";
import { provedWithinSeconds } from "../../../../src/health/conditions/completeness.sql.ts";
import { readPollState } from "../../../support/mirror/tables.ts";
import { CLOCK_START, startVirtualWorld } from "../../../support/virtual/virtualTime.ts";

const MINUTE_MS = 60_000;

function secondOf(instant: bigint): number {
  return Number((instant - CLOCK_START) / 1_000_000_000n);
}

it.each([
  // The page calls it up to date all the time.
  ["cycle", 11, 120, provedWithinSeconds({ marginSeconds: 300, intervalSeconds: 30 }), 0],
  // A page every half minute, and in the end two changes a second: a third of what can be read, and all is read twice.
  ["request", 35, 26, 1_320, 0.1],
] as const)(
  "safe_through claims no change that the mirror lacks, also of orders that move on while they are read, at the pace %s (%#)",
  async (pace, minutes, trafficPerMinute, lagMax, failShare) => {
    const world = await startVirtualWorld({
      speed: 1,
      trafficPerMinute,
      faults: { failShare },
    });
    const { clock, pool, steer } = world;
    // Under way now: they change, and leave their windows, while the history is read.
    await steer("POST", "/seed", { orders: 500 });
    world.startPoller("one", { pace });
    const looks: { claimed: bigint; lag: number; wrong: string[] }[] = [];
    for (let second = 1; second <= minutes * 60; second += minutes > 11 ? 3 : 1) {
      await clock.runUntil(second * 1_000);
      const claimed = (await readPollState(pool, "live"))?.safeThrough ?? 0n;
      const lag = second - secondOf(claimed);
      // What is right of a claim stays right: the provider adds nothing to the past.
      const isNew = claimed !== looks.at(-1)?.claimed;
      looks.push({ claimed, lag, wrong: isNew ? await world.falseClaims(claimed) : [] });
    }
    expect(looks.filter(({ wrong }) => wrong.length > 0)).toEqual([]);
    expect(new Set(looks.map(({ claimed }) => claimed)).size).toBeGreaterThan(2);
    const late = looks.slice(Math.floor(looks.length / 2)).map(({ lag }) => lag);
    expect(Math.max(...late)).toBeLessThanOrEqual(lagMax);
    const lists = world.listTimes();
    const gaps = lists.slice(1).map((atMs, index) => atMs - lists[index]!);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(pace === "request" ? 30_000 : 500);
  },
  20 * MINUTE_MS,
);
