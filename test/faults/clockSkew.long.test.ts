import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { noteFigures } from "../support/faults/extent.ts";
import { startWorldAndProvider } from "../support/faults/faultWorld.ts";

const BUSY_MS = 8_000;

// A wrong clock of ours looks the same to the program: only the difference between the clocks matters.
it.each([10, -10])(
  "with the provider's clock %i minutes off, polling misses nothing and claims nothing until it is right (row 19)",
  async (minutes) => {
    const faults = { clockSkewMs: minutes * 60_000 };
    const { world, provider } = await startWorldAndProvider({ faults }, onTestFinished);
    await world.start("poller");
    await provider.steer("POST", "/dials", { speed: 200, ordersPerMinute: 200 });
    const endsAtMs = performance.now() + BUSY_MS;
    while (performance.now() < endsAtMs) {
      await systemClock.sleep(1_000);
      await world.audit.look(provider);
    }
    await provider.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
    await world.audit.expectEqual(provider);
    expect(await world.audit.readSafeThrough()).toBe(0n);
    await provider.steer("POST", "/faults", { clockSkewMs: 0 });
    const figures = await world.audit.expectConverged(provider);
    expect(figures.refused429).toBe(0);
    noteFigures("19", { minutes, ...figures });
  },
);
