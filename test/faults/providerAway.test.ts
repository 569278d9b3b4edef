import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { isShort, noteFigures } from "../support/faults/extent.ts";
import { startWorldAndProvider } from "../support/faults/faultWorld.ts";

const AWAY_MS = isShort ? 5_000 : 20_000;

it.each(isShort ? (["silent"] as const) : (["silent", "refusing"] as const))(
  "with a provider that is %s, events are still applied, and polling catches up within the rate (rows 10, 31)",
  async (how) => {
    const { world, provider } = await startWorldAndProvider({ retryBaseMs: 1_000 }, onTestFinished);
    await provider.sendEventsTo(world.webhookUrl);
    await world.start("up");
    await provider.steer("POST", "/orders", { count: 20 });
    await world.audit.expectEqual(provider);
    provider.line.set(how === "silent" ? { silent: "both" } : { refuses: true });
    const before = await provider.readTruth();
    await provider.steer("POST", "/orders", { count: 50 });
    // The fleet moves, and its events arrive, because they bypass the broken connection.
    await provider.steer("POST", "/dials", { speed: 500 });
    const isMirrored = async () => {
      const { rows } = await world.audit.pool.query<{ reference: string }>(
        "select reference from mirror.orders where first_seen_via = 'webhook'",
      );
      return rows.filter(({ reference }) => !before.has(reference)).length;
    };
    await expect.poll(isMirrored).toBeGreaterThan(0);
    await systemClock.sleep(AWAY_MS);
    provider.line.heal();
    const figures = await world.audit.expectConverged(provider);
    expect(figures.refused429).toBe(0);
    noteFigures("31", { how, ...figures });
  },
);
