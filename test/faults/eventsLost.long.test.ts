import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { noteFigures } from "../support/faults/extent.ts";
import { startWorldAndProvider } from "../support/faults/faultWorld.ts";

const BUSY_MS = 30_000;

it("polling alone makes the mirror equal without any event (row 30)", async () => {
  const { world, provider } = await startWorldAndProvider({ faults: { loseShare: 1 } }, onTestFinished);
  await provider.sendEventsTo(world.webhookUrl);
  await world.start("up");
  await provider.steer("POST", "/dials", { speed: 200, ordersPerMinute: 300 });
  await systemClock.sleep(BUSY_MS);
  const figures = await world.audit.expectConverged(provider);
  const { rowCount } = await world.audit.pool.query("select from mirror.inbox");
  expect(rowCount).toBe(0);
  noteFigures("30", { events: 0, ...figures });
});
