import fc from "fast-check";
import { expect, it } from "vitest";
import type { Make } from "../support/scheduledProvider.ts";
import { arbitraryMake, arbitraryStep, ScheduledRun } from "../support/scheduledRun.ts";
import type { Step } from "../support/scheduledRun.ts";
import { openLane } from "../support/scheduledWorld.ts";
import type { Lane } from "../support/scheduledWorld.ts";

/**
 * Whole pollers over a real Postgres, in virtual time, on schedules that nobody thought of. `PROOF_SCHEDULES=2000` runs as
 * many of them instead of 300, `PROOF_SEED` chooses others; a failure prints the schedule. Lanes count their seeds up from it.
 */
const SCHEDULES = Number(process.env["PROOF_SCHEDULES"] ?? 300);
const SEED = Number(process.env["PROOF_SEED"] ?? 20_261_122);
/** Side by side, each with a database and a clock of its own: one computes while another waits for Postgres. */
const LANES = Math.min(3, SCHEDULES);

async function runSchedule(lane: Lane, as: Make, steps: readonly Step[]): Promise<void> {
  const world = await lane.begin(as);
  world.provider.change("A", 0);
  const run = new ScheduledRun(world);
  await run.cycle();
  for (const one of steps) await run.take(one);
  await run.end();
}

async function runLane(number: number): Promise<void> {
  const lane = await openLane(`lane${number}`);
  try {
    await fc.assert(
      fc.asyncProperty(arbitraryMake, fc.array(arbitraryStep, { minLength: 3, maxLength: 12 }), (as, steps) =>
        runSchedule(lane, as, steps),
      ),
      { numRuns: Math.ceil(SCHEDULES / LANES), seed: SEED + number, endOnFailure: true },
    );
  } finally {
    await lane.close();
  }
}

it(
  `ends as the provider on ${SCHEDULES} schedules of seed ${SEED}, and never claims what is known to be false`,
  { timeout: 60_000 + SCHEDULES * 4_000 },
  async () => {
    const lanes = await Promise.allSettled(Array.from({ length: LANES }, (_, number) => runLane(number)));
    for (const lane of lanes) if (lane.status === "rejected") throw lane.reason;
    expect(lanes).toHaveLength(LANES);
  },
);
