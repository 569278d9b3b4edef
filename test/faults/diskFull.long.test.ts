import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { noteFigures } from "../support/faults/extent.ts";
import { startFaultWorld } from "../support/faults/faultWorld.ts";
import type { FaultWorld } from "../support/faults/faultWorld.ts";
import { canStartRedis } from "../support/servers/redis.ts";

const PATIENCE = { timeout: 90_000, interval: 20 };
const MEGABYTE = 1_048_576;

/** A separate file system that a test can fill; undefined when mounting is not allowed. */
function mountSmallDisk(megabytes: number): string | undefined {
  const folder = mkdtempSync(path.join(tmpdir(), "order-mirror-disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder], { stdio: "ignore" });
    return folder;
  } catch {
    rmSync(folder, { recursive: true });
    return undefined;
  }
}

const disk = mountSmallDisk(160);
if (disk === undefined)
  process.stderr.write("NOT RUN: the tests of a full disk. Only root may mount a small one.\n");

// Mounted at import, because that decides whether the tests can run.
afterAll(async () => {
  if (disk === undefined) return;
  execFileSync("umount", [disk]);
  await rm(disk, { recursive: true });
});

/** Writes until nothing more fits. */
async function fill(folder: string): Promise<void> {
  for (let size = 64 * MEGABYTE; size >= 4_096; size /= 2) {
    for (let place = 0; ; place += 1) {
      const file = path.join(folder, `ballast-${size}-${place}`);
      const written = await writeFile(file, Buffer.alloc(size)).then(
        () => true,
        () => false,
      );
      if (!written) break;
    }
  }
}

function empty(folder: string): void {
  execFileSync("sh", ["-c", 'rm -f "$0"/ballast-*', folder]);
}

describe.runIf(disk !== undefined)("a full disk", () => {
  const folder = disk ?? "";
  let world: FaultWorld;
  afterEach(async () => {
    empty(folder);
    await world.close();
  });

  async function expectMoreAcknowledged(more: number): Promise<void> {
    const before = world.load.acknowledged.size;
    await expect.poll(() => world.load.acknowledged.size, PATIENCE).toBeGreaterThanOrEqual(before + more);
  }

  it("under Postgres leads to 503, and nothing is missing once there is room again (row 14)", async () => {
    const settings = ["min_wal_size=32MB", "max_wal_size=48MB"];
    world = await startFaultWorld({ postgres: { parent: folder, settings } });
    await world.start("web");
    await world.start("worker");
    world.load.start();
    await expectMoreAcknowledged(50);
    await fill(folder);
    await expect.poll(() => world.load.answers["503"] ?? 0, PATIENCE).toBeGreaterThan(20);
    empty(folder);
    // Postgres may have ended, and its operator starts it again.
    await world.postgres.stop();
    await world.postgres.start();
    await expectMoreAcknowledged(50);
    await world.load.stop();
    await world.load.settle();
    await world.audit.expectDecided(world.load.acknowledged);
    await world.audit.expectWholeFeed();
    noteFigures("14 (Postgres)", {
      acknowledged: world.load.acknowledged.size,
      refused: world.load.answers["503"] ?? 0,
      lost: 0,
    });
  });

  it.runIf(canStartRedis)("under Redis refuses no event and loses none (row 14)", async () => {
    world = await startFaultWorld({ redisSettings: ["--dir", folder] });
    await fill(folder);
    await world.start("web");
    await world.start("worker");
    for (let sent = 0; sent < 200; sent += 1) expect(await world.load.send()).toBe(200);
    await world.audit.expectDecided(world.load.acknowledged);
    noteFigures("14 (Redis)", { acknowledged: world.load.acknowledged.size, refused: 0, lost: 0 });
  });
});
