import { beforeEach, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { isShort, noteFigures, seed } from "../support/faults/extent.ts";
import { startFaultWorld, type FaultWorld } from "../support/faults/faultWorld.ts";
import { makeRandom } from "../support/faults/random.ts";

const ROUNDS = isShort ? 1 : 5;
const FROZEN_MS = isShort ? 5_000 : 60_000;

let world: FaultWorld;
beforeEach(async () => {
  world = await startFaultWorld({ ends: onTestFinished });
  await world.start("web");
  await world.start("worker");
  world.load.start();
  await world.load.more(20);
});

const count = (answer: string) => world.load.answers[answer] ?? 0;

/** Waits until more answers of 503 have arrived during the fault. */
async function expectRefusals(more = 8): Promise<void> {
  const before = count("503");
  await expect.poll(() => count("503")).toBeGreaterThanOrEqual(before + more);
}

/** The name, the rows of the matrix, and the fault itself, which returns how often it was injected. */
const faults: [what: string, rows: string, strike: () => Promise<number>][] = [
  [
    "that is killed (row 6)",
    "6",
    async () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        await world.postgres.kill();
        await expectRefusals();
        await world.postgres.start();
        await world.load.more(20);
      }
      return ROUNDS;
    },
  ],
  [
    "behind a connection that is silent in one or both directions (row 10)",
    "10",
    async () => {
      for (const silent of ["both", "answer", "request"] as const) {
        world.lines.postgres.set({ silent });
        await expectRefusals();
        world.lines.postgres.heal();
        await world.load.more(20);
      }
      return 3;
    },
  ],
  [
    "that is frozen (row 9)",
    "9",
    async () => {
      await world.postgres.freeze();
      await systemClock.sleep(FROZEN_MS);
      await expectRefusals();
      world.postgres.thaw();
      return 1;
    },
  ],
  [
    "behind a slow or narrow connection, or one that breaks at any byte (row 11)",
    "11",
    async () => {
      const random = makeRandom(seed);
      const line = world.lines.postgres;
      line.set({ delayMs: 200 });
      await world.load.more(20);
      line.set({ delayMs: 0, bytesPerSecond: 10_000 });
      await world.load.more(5);
      line.heal();
      for (let round = 0; round < ROUNDS * 4; round += 1) {
        // Open connections break as well, once they have carried that many bytes.
        line.set({ resetAfterBytes: 500 + Math.floor(random() * 40_000) });
        await expectRefusals(1);
      }
      line.heal();
      return 2 + ROUNDS * 4;
    },
  ],
];

it.each(isShort ? faults.slice(0, 2) : faults)(
  "a Postgres %s leads to 503, and nothing acknowledged is lost",
  async (_what, rows, strike) => {
    const struck = await strike();
    await world.load.more(20);
    await world.load.settle();
    await world.audit.expectDecided(world.load.acknowledged);
    // The receiver always answered: every refusal was a response.
    expect(count("unknown")).toBe(0);
    const acknowledged = world.load.acknowledged.size;
    noteFigures(rows, { faults: struck, acknowledged, refused: count("503"), lost: 0 });
  },
);
