import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import type { FaultsPatch } from "../../../src/sandbox/control/faults.ts";
import type { FaultProvider } from "../providers/faultProvider.ts";
import type { Weather } from "./faultProxy.ts";
import type { FaultWorld, Role } from "./faultWorld.ts";
import type { Supervisor } from "./supervisor.ts";

interface Stage {
  readonly world: FaultWorld;
  readonly provider: FaultProvider;
  readonly supervisor: Supervisor;
}

/** A fault from start to end. */
interface Fault {
  readonly name: string;
  readonly run: () => Promise<void>;
}

const ROLES: readonly Role[] = ["web", "worker", "poller"];
const SPAN_MAX_MS = 4_000;

/** The next random fault: its kind, place and duration depend only on `random`. */
export function chooseFault({ world, provider, supervisor }: Stage, random: () => number): Fault {
  const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random() * values.length)]!;
  const spanMs = 200 + Math.floor(random() * SPAN_MAX_MS);
  const wait = () => systemClock.sleep(spanMs);
  const role = pick(ROLES);
  const lineName = pick(["postgres", "redis", "provider"] as const);
  const weather = chooseWeather(pick, random);
  const flaw = pick(PROVIDER_FLAWS);
  const line = lineName === "provider" ? provider.line : world.lines[lineName];
  const child = () => supervisor.current(role)?.child;
  const kinds: Fault[] = [
    { name: `kill ${role}`, run: async () => void child()?.kill("SIGKILL") },
    {
      name: `stop ${role} for ${spanMs} ms`,
      run: async () => {
        const stopped = child();
        stopped?.kill("SIGSTOP");
        await wait();
        stopped?.kill("SIGCONT");
      },
    },
    {
      name: "kill Postgres",
      run: async () => {
        await world.postgres.kill();
        await wait();
        await world.postgres.start();
      },
    },
    {
      name: `freeze Postgres for ${spanMs} ms`,
      run: async () => {
        await world.postgres.freeze();
        await wait();
        world.postgres.thaw();
      },
    },
    {
      name: "kill Redis, and lose what it held",
      run: async () => {
        await world.redis.kill();
        await wait();
        await world.redis.restartEmpty();
      },
    },
    {
      name: `freeze Redis for ${spanMs} ms`,
      run: async () => {
        world.redis.freeze();
        await wait();
        world.redis.thaw();
      },
    },
    ...[1, 2, 3].map(() => ({
      name: `the line to ${lineName}: ${JSON.stringify(weather)} for ${spanMs} ms`,
      run: async () => {
        line.set(weather);
        await wait();
        line.heal();
      },
    })),
    ...[1, 2].map(() => ({
      name: `the provider: ${JSON.stringify(flaw)} for ${spanMs} ms`,
      run: async () => {
        provider.sandbox.setFaults(flaw);
        await wait();
        provider.sandbox.clearFaults();
      },
    })),
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
  { reorderShare: 0.8, reorderWindowMs: 3_000 },
  { corruptShare: 0.3 },
  { lateCommitShare: 0.3, lateCommitMs: 2_000 },
  { failShare: 0.5 },
  { truncateShare: 0.5 },
  { dropBeforeShare: 0.4 },
  { dropAfterShare: 0.4 },
  { latencyMs: 500, latencyJitterMs: 1_500 },
  { listOrder: "descending", listTies: "random" },
];
