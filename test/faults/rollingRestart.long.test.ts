import { expect, it } from "vitest";
import { noteFigures } from "../support/faults/extent.ts";
import { startFaultWorld } from "../support/faults/faultWorld.ts";
import type { Role } from "../support/programs/program.ts";

const ROUNDS = 5;

const world = await startFaultWorld();

it("roles restarted one after another under load lose nothing and exit cleanly (row 25)", async () => {
  const roles: Role[] = ["web", "worker"];
  const programs = new Map(
    await Promise.all(roles.map(async (role) => [role, await world.start(role)] as const)),
  );
  world.load.start();
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const role of roles) {
      await world.load.more(30);
      const ending = await programs.get(role)?.stop("SIGTERM");
      // By the requested signal, not by its own deadline.
      expect(ending?.signal).toBe("SIGTERM");
      expect(ending?.stderr).not.toContain("shutdown took too long");
      programs.set(role, await world.start(role));
    }
  }
  await world.load.settle();
  await world.audit.expectDecided(world.load.acknowledged);
  noteFigures("25", {
    restarts: ROUNDS * roles.length,
    acknowledged: world.load.acknowledged.size,
    unknown: world.load.answers["unknown"] ?? 0,
    lost: 0,
  });
});
