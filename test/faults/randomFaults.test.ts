import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { noteFigures, randomSeconds, seed } from "../support/faults/extent.ts";
import { startEventRelay } from "../support/faults/events.ts";
import type { FaultProvider } from "../support/providers/faultProvider.ts";
import type { Role } from "../support/programs/program.ts";
import {
  startWorldAndProvider,
  type FaultWorld,
  superviseRoles,
  type Supervisor,
} from "../support/faults/faultWorld.ts";
import { makeRandom } from "../support/faults/random.ts";
import { canStartRedis } from "../support/servers/redis.ts";
import { systemClock } from "../../src/process/clock.ts";
import { NO_FAULTS, type FaultsPatch } from "../../src/sandbox/control/faults.ts";
import type { Weather } from "../support/faults/faultProxy.ts";

interface Stage {
  readonly world: FaultWorld;
  readonly provider: FaultProvider;
  readonly supervisor: Supervisor;
}

/** A fault from start to end. */
interface Fault {
  readonly name: string;
  readonly run: () => Promise<unknown>;
}

const ROLES: readonly Role[] = ["web", "worker", "poller"];
const SPAN_MAX_MS = 4_000;

/** The next random fault: its kind, place and duration depend only on `random`. */
function chooseFault({ world, provider, supervisor }: Stage, random: () => number): Fault {
  const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random() * values.length)]!;
  const spanMs = 200 + Math.floor(random() * SPAN_MAX_MS);
  const role = pick(ROLES);
  const lineName = pick(["postgres", "redis", "provider"] as const);
  const weather = chooseWeather(pick, random);
  const flaw = pick(PROVIDER_FLAWS);
  const line = lineName === "provider" ? provider.line : world.lines[lineName];
  const child = supervisor.current(role)?.child;
  const spell = (name: string, begin: () => unknown, end: () => unknown): Fault => ({
    name: `${name} for ${spanMs} ms`,
    async run() {
      await begin();
      await systemClock.sleep(spanMs);
      await end();
    },
  });
  const onLine = spell(
    `the line to ${lineName}: ${JSON.stringify(weather)}`,
    () => line.set(weather),
    () => line.heal(),
  );
  const atProvider = spell(
    `the provider: ${JSON.stringify(flaw)}`,
    () => provider.sandbox.setFaults(flaw),
    () => provider.sandbox.setFaults(NO_FAULTS),
  );
  const kinds: Fault[] = [
    { name: `kill ${role}`, run: async () => child?.kill("SIGKILL") },
    spell(
      `stop ${role}`,
      () => child?.kill("SIGSTOP"),
      () => child?.kill("SIGCONT"),
    ),
    spell(
      "kill Postgres, which stays away",
      () => world.postgres.kill(),
      () => world.postgres.start(),
    ),
    spell(
      "freeze Postgres",
      () => world.postgres.freeze(),
      () => world.postgres.thaw(),
    ),
    spell(
      "kill Redis, which comes back empty, and stays away",
      () => world.redis.kill(),
      () => world.redis.restartEmpty(),
    ),
    spell(
      "freeze Redis",
      () => world.redis.freeze(),
      () => world.redis.thaw(),
    ),
    onLine,
    onLine,
    onLine,
    atProvider,
    atProvider,
  ];
  return pick(kinds);
}

function chooseWeather(
  pick: <Value>(values: readonly Value[]) => Value,
  random: () => number,
): Partial<Weather> {
  return pick<Partial<Weather>>([
    { delayMs: 50 + Math.floor(random() * 300) },
    { bytesPerSecond: 10_000 },
    { silent: pick(["both", "request", "answer"] as const) },
    { refuses: true },
    { resetAfterBytes: Math.floor(random() * 20_000) },
  ]);
}

/** Does not include refusals that the fault makes up: the run counts refusals to check that none was deserved. */
const PROVIDER_FLAWS: readonly FaultsPatch[] = [
  { loseShare: 0.5 },
  { duplicateShare: 0.5 },
  { delayShare: 0.5, delayMs: 2_000 },
  { delayShare: 0.8, delayMs: 3_000 },
  { corruptShare: 0.3 },
  { lateCommitShare: 0.3, lateCommitMs: 2_000 },
  { failShare: 0.5 },
  { truncateShare: 0.5 },
  { dropBeforeShare: 0.4 },
  { dropAfterShare: 0.4 },
  { latencyMs: 1_500 },
  { listOrder: "descending", listTies: "random" },
];

const HOUR_MS = 3_600_000;

const options = { seed, speed: 40, trafficPerMinute: 120, retryBaseMs: 500 };
const { world, provider } = await startWorldAndProvider(options);
const relay = await startEventRelay(world.webhookUrl);
afterAll(relay.close);
await provider.sendEventsTo(relay.url);

/** Everything runs, orders are created, the fleet drives, and one fault follows another: rows 1 to 31 at random. */
describe.runIf(canStartRedis)(`random faults, seed ${seed}`, () => {
  let supervisor: Supervisor;
  let faults = 0;
  beforeAll(async () => {
    supervisor = superviseRoles(world, ["web", "worker", "poller"]);
    await vi.waitUntil(() => relay.acknowledged.size > 0, { timeout: HOUR_MS, interval: 100 });
  });
  afterAll(() => supervisor.stop());

  it(
    "safety: during the faults no order and no claim goes back, and no claim is false",
    async () => {
      const random = makeRandom(seed);
      const endsAtMs = performance.now() + randomSeconds * 1_000;
      while (performance.now() < endsAtMs) {
        const { name, run } = chooseFault({ world, provider, supervisor }, random);
        process.stderr.write(`  fault ${(faults += 1)}: ${name}\n`);
        await run();
        await world.audit.look(provider);
        expect(world.audit.violations).toEqual([]);
      }
      expect(supervisor.crashes).toEqual([]);
    },
    randomSeconds * 1_000 + HOUR_MS,
  );

  it("liveness: after the faults the mirror becomes equal and proves it", async () => {
    const startedMs = performance.now();
    const figures = await world.audit.expectConverged(provider);
    // The provider's limits were kept, whatever process was killed or disconnected.
    expect(figures.refused429).toBe(0);
    const seconds = Math.round((performance.now() - startedMs) / 1_000);
    await world.audit.expectDecided(relay.acknowledged);
    noteFigures("1 to 31 at random", {
      seed,
      seconds: randomSeconds,
      faults,
      ...figures,
      acknowledged: relay.acknowledged.size,
      ...relay.counts,
      lost: 0,
      "equal after seconds": seconds,
    });
  });
});
