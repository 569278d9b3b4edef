import { afterEach, expect, it } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { noteFigures } from "../support/faults/extent.ts";
import { startFaultProvider, type FaultProvider } from "../support/providers/faultProvider.ts";
import { startFaultWorld, type FaultWorld } from "../support/faults/faultWorld.ts";
import { readSafeThrough } from "../support/faults/mirrorAudit.ts";

const BUSY_MS = 8_000;

let provider: FaultProvider;
let world: FaultWorld;
afterEach(async () => {
  await world.close();
  await provider.close();
});

// A wrong clock of ours looks the same to the program: only the difference between the clocks matters.
it.each([10, -10])(
  "with the provider's clock %i minutes off, polling misses nothing and claims nothing until it is right (row 19)",
  async (minutes) => {
    provider = await startFaultProvider({ faults: { clockSkewMs: minutes * 60_000 } });
    world = await startFaultWorld({ env: provider.env });
    await world.start("poller");
    await provider.steer("POST", "/dials", { speed: 200, ordersPerMinute: 200 });
    const endsAtMs = performance.now() + BUSY_MS;
    while (performance.now() < endsAtMs) {
      await systemClock.sleep(1_000);
      await world.audit.look(provider.readVersions);
    }
    await provider.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
    await world.audit.expectEqual(provider.readTruth);
    expect(await readSafeThrough(world.audit.pool)).toBe(0n);
    await provider.steer("POST", "/faults", { clockSkewMs: 0 });
    await world.audit.expectSafe(provider.sandbox.now());
    await world.audit.look(provider.readVersions);
    expect(world.audit.violations).toEqual([]);
    expect(await provider.countAnswers(429)).toBe(0);
    noteFigures("19", { minutes, orders: (await provider.readTruth()).size, missing: 0, refused429: 0 });
  },
);
