import { expect, it, onTestFinished, vi } from "vitest";
import { makeTicks } from "../../../src/poll/leader/ticks.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";

const DEPS = { clock: systemClock, logger: silentLogger };
const TIMEOUT = { timeout: 10_000 };

it("calls what was added every second, until it is removed", async () => {
  const ticks = makeTicks(DEPS);
  const counts = { first: 0, second: 0 };
  const count = (name: keyof typeof counts) => () => {
    counts[name] += 1;
    return true;
  };
  const removeFirst = ticks.add(count("first"));
  const removeSecond = ticks.add(count("second"));
  await expect.poll(() => counts, TIMEOUT).toEqual({ first: 1, second: 1 });
  await removeFirst();
  await expect.poll(() => counts, TIMEOUT).toEqual({ first: 1, second: 2 });
  await removeSecond();
  // The schedule has ended with its last function; another one begins a new schedule.
  const removeAgain = ticks.add(count("first"));
  await expect.poll(() => counts, TIMEOUT).toEqual({ first: 2, second: 2 });
  await removeAgain();
});

it("lets a part of many begin in each tick, those that have waited longest first", async () => {
  const ticks = makeTicks(DEPS);
  const ticksSeen: number[][] = [];
  let begun: number[] = [];
  const removals = Array.from({ length: 120 }, (_, number) =>
    ticks.add(() => {
      begun.push(number);
      return true;
    }),
  );
  for (let tick = 0; tick < 3; tick += 1) {
    await expect.poll(() => begun.length, TIMEOUT).toBeGreaterThan(0);
    ticksSeen.push(begun);
    begun = [];
  }
  const numbers = Array.from({ length: 150 }, (_, index) => index % 120);
  expect(ticksSeen).toEqual([numbers.slice(0, 50), numbers.slice(50, 100), numbers.slice(100)]);
  for (const remove of removals) await remove();
});

it("does not count those that are not due", async () => {
  const ticks = makeTicks(DEPS);
  const begun: number[] = [];
  const removals = Array.from({ length: 120 }, (_, number) =>
    ticks.add(() => {
      if (number < 80) return false;
      begun.push(number);
      return true;
    }),
  );
  await expect.poll(() => begun.length, TIMEOUT).toBe(40);
  for (const remove of removals) await remove();
});

it.each([
  ["ahead by a day, or the machine has slept for one", 1],
  ["back by a day", -1],
])("continues at once when the clock is set %s", async (_where, days) => {
  const ticks = makeTicks(DEPS);
  let count = 0;
  const remove = ticks.add(() => {
    count += 1;
    return true;
  });
  await expect.poll(() => count, TIMEOUT).toBe(1);
  vi.useFakeTimers({ toFake: ["Date"], shouldAdvanceTime: true, now: Date.now() + days * 86_400_000 });
  onTestFinished(() => void vi.useRealTimers());
  const before = process.cpuUsage();
  await expect.poll(() => count, { timeout: 60_000 }).toBeGreaterThan(2);
  const { user, system } = process.cpuUsage(before);
  // To look at each second of a day takes half a minute.
  expect((user + system) / 1e6).toBeLessThan(5);
  await remove();
});
