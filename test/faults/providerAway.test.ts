import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { isShort, noteFigures } from "../support/faults/extent.ts";
import { startFaultProvider, type FaultProvider } from "../support/providers/faultProvider.ts";
import { startFaultWorld, type FaultWorld } from "../support/faults/faultWorld.ts";

const AWAY_MS = isShort ? 5_000 : 20_000;
const PATIENCE = { timeout: 60_000, interval: 100 };

let provider: FaultProvider;
let world: FaultWorld;
beforeEach(async () => {
  provider = await startFaultProvider({ retryBaseMs: 1_000 });
  world = await startFaultWorld({ env: provider.env });
  await provider.sendEventsTo(world.webhookUrl);
  await world.start("up");
});
afterEach(async () => {
  await world.close();
  await provider.close();
});

async function makeOrders(count: number): Promise<void> {
  await provider.steer("POST", "/orders", { count });
}

it.each(isShort ? (["silent"] as const) : (["silent", "refusing"] as const))(
  "with a provider that is %s, events are still applied, and polling catches up within the rate (rows 10, 31)",
  async (how) => {
    await makeOrders(20);
    await world.audit.expectEqual(provider.readTruth);
    provider.line.set(how === "silent" ? { silent: "both" } : { refuses: true });
    const before = await provider.readTruth();
    await makeOrders(50);
    // The fleet moves, and its events arrive, because they bypass the broken connection.
    await provider.steer("POST", "/dials", { speed: 500 });
    const isMirrored = async () => {
      const { rows } = await world.audit.pool.query<{ reference: string }>(
        "select reference from mirror.orders where first_seen_via = 'webhook'",
      );
      return rows.filter(({ reference }) => !before.has(reference)).length;
    };
    await expect.poll(isMirrored, PATIENCE).toBeGreaterThan(0);
    await systemClock.sleep(AWAY_MS);
    await provider.steer("POST", "/dials", { speed: 0 });
    provider.line.heal();
    const healedAt = provider.sandbox.now();
    await world.audit.expectEqual(provider.readTruth);
    await world.audit.expectSafe(healedAt);
    await world.audit.look(provider.readVersions);
    expect(world.audit.violations).toEqual([]);
    expect(await provider.countAnswers(429)).toBe(0);
    noteFigures("31", { how, orders: (await provider.readTruth()).size, missing: 0, refused429: 0 });
  },
);
