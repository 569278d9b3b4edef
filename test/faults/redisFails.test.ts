import { Redis } from "ioredis";
import { beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { isShort, noteFigures } from "../support/faults/extent.ts";
import { startFaultWorld } from "../support/faults/faultWorld.ts";
import { canStartRedis } from "../support/servers/redis.ts";

const ROUNDS = isShort ? 1 : 5;
const FROZEN_MS = isShort ? 5_000 : 60_000;

const world = await startFaultWorld();

describe.runIf(canStartRedis)("a Redis that fails", () => {
  beforeAll(async () => {
    await world.start("web");
    await world.start("worker");
  });

  const faults: [string, string, () => Promise<void>][] = [
    [
      "is killed again and again (row 4)",
      "4",
      async () => {
        for (let round = 0; round < ROUNDS; round += 1) {
          await world.redis.kill();
          await world.load.more(50);
          await world.redis.restart();
          await world.load.more(50);
        }
      },
    ],
    [
      "is flushed, and returns empty (row 5)",
      "5",
      async () => {
        await world.redis.flush();
        await world.load.more(50);
        await world.redis.restartEmpty();
      },
    ],
    [
      "is out of memory (row 5)",
      "5",
      async () => {
        const client = new Redis(world.redis.url);
        await client.config("SET", "maxmemory", "1");
        await world.load.more(50);
        await client.config("SET", "maxmemory", "0");
        client.disconnect();
      },
    ],
    [
      "is frozen (row 8)",
      "8",
      async () => {
        world.redis.freeze();
        await systemClock.sleep(FROZEN_MS);
        await world.load.more(50);
        world.redis.thaw();
      },
    ],
    [
      "is behind a connection that is silent, or slow and breaking (rows 10, 11)",
      "10, 11",
      async () => {
        for (const silent of ["both", "answer", "request"] as const) {
          world.lines.redis.set({ silent });
          await world.load.more(50);
          world.lines.redis.heal();
        }
        world.lines.redis.set({ delayMs: 200, bytesPerSecond: 10_000, resetAfterBytes: 5_000 });
        await world.load.more(50);
        world.lines.redis.heal();
      },
    ],
  ];

  it.each(isShort ? faults.slice(0, 2) : faults)(
    "and %s delays no answer and loses no event",
    async (_what, rows, fail) => {
      const refused = () =>
        Object.entries(world.load.answers).reduce((sum, [name, n]) => (name === "200" ? sum : sum + n), 0);
      world.load.start();
      await world.load.more(20);
      await fail();
      await world.load.more(20);
      await world.load.stop();
      // Acknowledgements do not depend on Redis: whatever it does, nothing is refused or left unanswered.
      expect(refused()).toBe(0);
      await world.audit.expectDecided(world.load.acknowledged);
      noteFigures(rows, { acknowledged: world.load.acknowledged.size, refused: 0, lost: 0 });
    },
  );
});
