import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { noteFigures } from "../support/faults/extent.ts";
import { startFaultProvider, type FaultProvider } from "../support/providers/faultProvider.ts";
import { startFaultWorld, type FaultWorld } from "../support/faults/faultWorld.ts";

const BUSY_MS = 30_000;

let provider: FaultProvider;
let world: FaultWorld;
beforeEach(async () => {
  provider = await startFaultProvider({ faults: { loseShare: 1 } });
  world = await startFaultWorld({ env: provider.env });
  await provider.sendEventsTo(world.webhookUrl);
  await world.start("up");
});
afterEach(async () => {
  await world.close();
  await provider.close();
});

it("polling alone makes the mirror equal without any event (row 30)", async () => {
  await provider.steer("POST", "/dials", { speed: 200, ordersPerMinute: 300 });
  await systemClock.sleep(BUSY_MS);
  await provider.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
  const quietAt = provider.sandbox.now();
  await world.audit.expectEqual(provider.readTruth);
  await world.audit.expectSafe(quietAt);
  const { rowCount } = await world.audit.pool.query("select from mirror.inbox");
  expect(rowCount).toBe(0);
  noteFigures("30", { orders: (await provider.readTruth()).size, events: 0, missing: 0 });
});
