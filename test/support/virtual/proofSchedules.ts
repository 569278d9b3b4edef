import fc from "fast-check";
import { expect, it } from "vitest";
import type { Make } from "../providers/scheduledProvider.ts";
import { arbitraryMake, arbitraryStep, ScheduledRun, type Step } from "./scheduledRun.ts";
import { openLane, type Lane } from "./scheduledWorld.ts";

/**
 * `PROOF_SCHEDULES` and `PROOF_SEED` choose the number of schedules and the first seed, from which the lanes count up. A
 * failure prints the schedule. `.ci/run` asks for 2,000.
 */
const SCHEDULES = Number(process.env["PROOF_SCHEDULES"] ?? 400);
const SEED = Number(process.env["PROOF_SEED"] ?? 20_261_122);
/** Test files that share the schedules, each in its own process with its own Postgres. */
const SHARES = 2;
const SHARE = Math.ceil(SCHEDULES / SHARES);
/** Schedules that run in parallel in one process, each with its own database and clock: one computes while another waits for Postgres. */
const LANES = Math.min(3, SHARE);

async function runSchedule(lane: Lane, as: Make, steps: readonly Step[]): Promise<void> {
  const world = await lane.begin(as);
  const run = new ScheduledRun(world);
  await run.begin();
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
      { numRuns: Math.ceil(SHARE / LANES), seed: SEED + number, endOnFailure: true },
    );
  } finally {
    await lane.close();
  }
}

/** Runs one share, from 0 on, of random schedules: whole pollers over a real Postgres in virtual time. */
export function testSchedules(share: 0 | 1): void {
  it(
    `ends as the provider on share ${share} of ${SCHEDULES} schedules of seed ${SEED}, and never claims what is known to be false`,
    { timeout: 60_000 + SHARE * 4_000 },
    async () => {
      const first = share * LANES;
      const lanes = await Promise.allSettled(
        Array.from({ length: LANES }, (_, number) => runLane(first + number)),
      );
      for (const lane of lanes) if (lane.status === "rejected") throw lane.reason;
      expect(lanes).toHaveLength(LANES);
    },
  );
}
