import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { noteFigures } from "../support/faults/extent.ts";
import { startFaultProvider, type FaultProvider } from "../support/providers/faultProvider.ts";
import { startFaultWorld, type FaultWorld } from "../support/faults/faultWorld.ts";

const PATIENCE_MS = 120_000;

let provider: FaultProvider;
let world: FaultWorld;
beforeEach(async () => {
  provider = await startFaultProvider({ trafficPerMinute: 60, speed: 50 });
  world = await startFaultWorld({ env: provider.env });
});
afterEach(async () => {
  await world.close();
  await provider.close();
});

it("one of two pollers leads; when it is suspended the other takes over, and when it resumes it commits nothing (row 26)", async () => {
  const first = world.launch("poller");
  await first.waitFor(/leads now/, PATIENCE_MS);
  const second = await world.start("poller");
  await systemClock.sleep(5_000);
  expect(second.output()).not.toContain("leads now");
  first.child.kill("SIGSTOP");
  await second.waitFor(/leads now/, PATIENCE_MS);
  await systemClock.sleep(12_000);
  first.child.kill("SIGCONT");
  await first.waitFor(/no longer leads|lease/, PATIENCE_MS);
  await provider.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
  const quietSince = provider.sandbox.now();
  await world.audit.expectEqual(provider.readTruth);
  await world.audit.expectSafe(quietSince);
  await world.audit.look(provider.readVersions);
  expect(world.audit.violations).toEqual([]);
  // Both together stayed within the rate of one.
  expect(await provider.countAnswers(429)).toBe(0);
  noteFigures("26", { orders: (await provider.readTruth()).size, missing: 0, refused429: 0 });
});
