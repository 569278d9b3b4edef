import { beforeEach, expect, it, onTestFinished } from "vitest";
import { noteFigures } from "../support/faults/extent.ts";
import type { FaultProxy, HoldPoint } from "../support/faults/faultProxy.ts";
import { startWorldAndProvider, type FaultWorld } from "../support/faults/faultWorld.ts";
import type { FaultProvider } from "../support/providers/faultProvider.ts";

const ORDERS = 300;
/** How often it passes the step before it is killed there. */
const EARLIER = 2;

let provider: FaultProvider;
let world: FaultWorld;
beforeEach(async () => {
  // Small pages, so that a window takes several.
  ({ provider, world } = await startWorldAndProvider({ faults: { listLimitMax: 40 } }, onTestFinished));
  await provider.steer("POST", "/seed", {
    orders: ORDERS,
    since: new Date(Date.now() - 20 * 60_000).toISOString(),
  });
});

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
  await world.audit.look(provider);
  await poller.stop("SIGKILL");
  held.drop();
  await world.start("poller");
  const figures = await world.audit.expectConverged(provider);
  // The next one does not know how much of the rate the killed one had used.
  expect(figures.refused429).toBe(0);
  noteFigures("3", { step, ...figures });
});
