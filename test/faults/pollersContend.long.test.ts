import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { noteFigures } from "../support/faults/extent.ts";
import { startWorldAndProvider } from "../support/faults/faultWorld.ts";

it("one of two pollers leads; when it is suspended the other takes over, and when it resumes it commits nothing (row 26)", async () => {
  const { world, provider } = await startWorldAndProvider(
    { trafficPerMinute: 60, speed: 50 },
    onTestFinished,
  );
  const first = world.launch("poller");
  await first.waitFor(/leads now/);
  const second = await world.start("poller");
  await systemClock.sleep(5_000);
  expect(second.output()).not.toContain("leads now");
  first.child.kill("SIGSTOP");
  await second.waitFor(/leads now/);
  await systemClock.sleep(12_000);
  first.child.kill("SIGCONT");
  await first.waitFor(/no longer leads|lease/);
  const figures = await world.audit.expectConverged(provider);
  // Both together stayed within the rate of one.
  expect(figures.refused429).toBe(0);
  noteFigures("26", figures);
});
