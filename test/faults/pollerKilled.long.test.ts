import { afterEach, beforeEach, expect, it } from "vitest";
import { noteFigures } from "../support/faults/extent.ts";
import type { FaultProxy, HoldPoint } from "../support/faults/faultProxy.ts";
import { startFaultProvider, type FaultProvider } from "../support/providers/faultProvider.ts";
import { startFaultWorld, type FaultWorld } from "../support/faults/faultWorld.ts";

const ORDERS = 300;
/** How often it passes the step before it is killed there. */
const EARLIER = 2;

let provider: FaultProvider;
let world: FaultWorld;
beforeEach(async () => {
  // Small pages, so that a window takes several.
  provider = await startFaultProvider({ faults: { listLimitMax: 40 } });
  world = await startFaultWorld({ env: provider.env });
  await provider.steer("POST", "/seed", {
    orders: ORDERS,
    since: new Date(Date.now() - 20 * 60_000).toISOString(),
  });
});
afterEach(async () => {
  await world.close();
  await provider.close();
});

async function expectWholeMirror(): Promise<void> {
  const now = provider.sandbox.now();
  await world.audit.expectEqual(provider.readTruth);
  await world.audit.expectSafe(now);
  await world.audit.look(provider.readVersions);
  expect(world.audit.violations).toEqual([]);
  await world.audit.expectWholeFeed();
}

const steps: [string, () => FaultProxy, HoldPoint][] = [
  ["between two pages", () => provider.line, { text: "GET /v1/orders?", before: "request" }],
  [
    "after it applied a window, before it records that",
    () => world.lines.postgres,
    { text: "insert into mirror.coverage", before: "request" },
  ],
  [
    "after it recorded a window, before it knows that",
    () => world.lines.postgres,
    { text: "insert into mirror.coverage", before: "answer" },
  ],
];

// Each takes until the dead leader's lease expires.
it.each(steps)("a poller killed %s misses no order (row 3)", async (step, chooseLine, point) => {
  const poller = world.launch("poller");
  for (let earlier = 0; earlier < EARLIER; earlier += 1) {
    const passed = chooseLine().holdAt(point);
    await passed.reached;
    passed.release();
  }
  const held = chooseLine().holdAt(point);
  await held.reached;
  await world.audit.look(provider.readVersions);
  await poller.stop("SIGKILL");
  held.drop();
  await world.start("poller");
  await expectWholeMirror();
  // The next one does not know how much of the rate the killed one had used.
  expect(await provider.countAnswers(429)).toBe(0);
  noteFigures("3", { step, orders: (await provider.readTruth()).size, missing: 0, refused429: 0 });
});
