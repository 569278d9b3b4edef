import { afterAll, afterEach, describe, expect, it, onTestFinished } from "vitest";
import { noteFigures } from "../support/faults/extent.ts";
import { startFaultWorld } from "../support/faults/faultWorld.ts";
import { canStartRedis } from "../support/servers/redis.ts";
import { mountSmallDisk } from "../support/servers/smallDisk.ts";

// Mounted at import, because that decides whether the tests can run.
const disk = mountSmallDisk(160);
afterAll(() => disk?.unmount());

describe.runIf(disk !== undefined)("a full disk", () => {
  const folder = disk?.folder ?? "";
  afterEach(() => disk?.empty());

  it("under Postgres leads to 503, and nothing is missing once there is room again (row 14)", async () => {
    const settings = ["min_wal_size=32MB", "max_wal_size=48MB"];
    const world = await startFaultWorld({ postgres: { parent: folder, settings }, ends: onTestFinished });
    await world.start("web");
    await world.start("worker");
    world.load.start();
    await world.load.more(50);
    await disk?.fill();
    await expect.poll(() => world.load.answers["503"] ?? 0).toBeGreaterThan(20);
    disk?.empty();
    // Postgres may have ended, and its operator starts it again.
    await world.postgres.stop();
    await world.postgres.start();
    await world.load.more(50);
    await world.load.settle();
    await world.audit.expectDecided(world.load.acknowledged);
    noteFigures("14 (Postgres)", {
      acknowledged: world.load.acknowledged.size,
      refused: world.load.answers["503"] ?? 0,
      lost: 0,
    });
  });

  it.runIf(canStartRedis)("under Redis refuses no event and loses none (row 14)", async () => {
    const world = await startFaultWorld({ redisSettings: ["--dir", folder], ends: onTestFinished });
    await disk?.fill();
    await world.start("web");
    await world.start("worker");
    for (let sent = 0; sent < 200; sent += 1) expect(await world.load.send()).toBe(200);
    await world.audit.expectDecided(world.load.acknowledged);
    noteFigures("14 (Redis)", { acknowledged: world.load.acknowledged.size, refused: 0, lost: 0 });
  });
});
