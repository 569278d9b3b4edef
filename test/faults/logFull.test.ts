import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { noteFigures } from "../support/faults/extent.ts";
import { startFaultWorld } from "../support/faults/faultWorld.ts";

/** Every write to it fails as on a full disk. */
const FULL = "/dev/full";

const world = await startFaultWorld();

if (!existsSync(FULL)) process.stderr.write(`NOT RUN: the test of a full disk under the log. No ${FULL}.\n`);

it.runIf(existsSync(FULL))(
  "a full disk under the log ends no process and refuses no event (row 14)",
  async () => {
    const web = world.launch("web", {}, { stderrTo: FULL });
    const worker = world.launch("worker", {}, { stderrTo: FULL });
    await expect.poll(() => world.load.send()).toBe(200);
    // A worker that is still starting exits when it finds no Postgres.
    await world.audit.expectDecided(world.load.acknowledged);
    // Something to log repeatedly.
    await world.postgres.stop();
    for (let refused = 0; refused < 5; refused += 1) expect(await world.load.send()).toBe(503);
    await world.postgres.start();
    await world.load.settle();
    await world.audit.expectDecided(world.load.acknowledged);
    expect(web.child.exitCode).toBeNull();
    expect(worker.child.exitCode).toBeNull();
    noteFigures("14 (log)", { acknowledged: world.load.acknowledged.size, lost: 0 });
  },
);
