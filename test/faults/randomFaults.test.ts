import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { noteFigures, randomSeconds, seed } from "../support/faults/extent.ts";
import { startEventRelay } from "../support/faults/eventRelay.ts";
import type { EventRelay } from "../support/faults/eventRelay.ts";
import { startFaultProvider } from "../support/providers/faultProvider.ts";
import type { FaultProvider } from "../support/providers/faultProvider.ts";
import { startFaultWorld } from "../support/faults/faultWorld.ts";
import type { FaultWorld } from "../support/faults/faultWorld.ts";
import { makeRandom } from "../support/faults/random.ts";
import { chooseFault } from "../support/faults/randomFault.ts";
import { canStartRedis } from "../support/servers/redis.ts";
import { superviseRoles } from "../support/faults/supervisor.ts";
import type { Supervisor } from "../support/faults/supervisor.ts";

const MINUTE_MS = 60_000;

/** Everything runs, orders are created, the fleet drives, and one fault follows another: rows 1 to 31 at random. */
describe.runIf(canStartRedis)(`random faults, seed ${seed}`, () => {
  let provider: FaultProvider;
  let world: FaultWorld;
  let relay: EventRelay;
  let supervisor: Supervisor;
  let faults = 0;

  beforeAll(async () => {
    provider = await startFaultProvider({ seed, speed: 40, trafficPerMinute: 120, retryBaseMs: 500 });
    world = await startFaultWorld({ env: provider.env });
    relay = await startEventRelay(world.webhookUrl);
    await provider.sendEventsTo(relay.url);
    supervisor = superviseRoles(world, ["web", "worker", "poller"]);
    await vi.waitUntil(() => relay.acknowledged.size > 0, { timeout: MINUTE_MS, interval: 100 });
  });
  afterAll(async () => {
    await supervisor.stop();
    await world.close();
    await relay.close();
    await provider.close();
  });

  it(
    "safety: during the faults no order and no claim goes back, and no claim is false",
    async () => {
      const random = makeRandom(seed);
      const endsAtMs = performance.now() + randomSeconds * 1_000;
      while (performance.now() < endsAtMs) {
        const { name, run } = chooseFault({ world, provider, supervisor }, random);
        process.stderr.write(`  fault ${(faults += 1)}: ${name}\n`);
        await run();
        await world.audit.look(provider.readVersions);
        expect(world.audit.violations).toEqual([]);
      }
      expect(supervisor.crashes).toEqual([]);
    },
    randomSeconds * 1_000 + 2 * MINUTE_MS,
  );

  it(
    "liveness: after the faults the mirror becomes equal and proves it",
    async () => {
      await provider.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
      const quietAt = provider.sandbox.now();
      const startedMs = performance.now();
      await world.audit.expectEqual(provider.readTruth);
      await world.audit.expectSafe(quietAt);
      const seconds = Math.round((performance.now() - startedMs) / 1_000);
      await world.audit.expectDecided(relay.acknowledged);
      await world.audit.expectWholeFeed();
      expect(await world.audit.look(provider.readVersions)).toBe(true);
      expect(world.audit.violations).toEqual([]);
      // The provider's limits were kept, whatever process was killed or disconnected.
      expect(await provider.countAnswers(429)).toBe(0);
      noteFigures("1 to 31 at random", {
        seed,
        seconds: randomSeconds,
        faults,
        orders: (await provider.readTruth()).size,
        acknowledged: relay.acknowledged.size,
        ...relay.counts,
        lost: 0,
        "equal after seconds": seconds,
      });
    },
    6 * MINUTE_MS,
  );
});
