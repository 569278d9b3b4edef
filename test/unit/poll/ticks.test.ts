import { expect, it, onTestFinished, vi } from "vitest";
import { makeTicks } from "../../../src/poll/leader/ticks.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";

const DEPS = { clock: systemClock, logger: silentLogger };

/** Notes what begins in each tick. */
function makeNotes() {
  const ticksSeen: number[][] = [];
  let current: number[] | undefined;
  const note = (number: number) => {
    if (current === undefined) {
      ticksSeen.push((current = []));
      // A tick is one turn of the event loop.
      setImmediate(() => (current = undefined));
    }
    current.push(number);
    return true;
  };
  return { ticksSeen, note };
}

it("calls what was added every second, until it is removed", async () => {
  const ticks = makeTicks(DEPS);
  const counts = { first: 0, second: 0 };
  /** `after` runs before the next tick, however late that is. */
  const count = (name: keyof typeof counts, after: () => unknown) => () => {
    counts[name] += 1;
    setImmediate(after);
    return true;
  };
  const removeFirst = ticks.add(count("first", () => undefined));
  const removeSecond = ticks.add(
    count("second", () => (counts.second === 1 ? removeFirst() : removeSecond())),
  );
  await expect.poll(() => counts).toEqual({ first: 1, second: 2 });
  // The schedule has ended with its last function; another one begins a new schedule.
  const removeAgain = ticks.add(count("first", () => removeAgain()));
  await expect.poll(() => counts).toEqual({ first: 2, second: 2 });
});

it("lets a part of many begin in each tick, those that have waited longest first", async () => {
  const ticks = makeTicks(DEPS);
  const { ticksSeen, note } = makeNotes();
  const removals = Array.from({ length: 120 }, (_, number) => ticks.add(() => note(number)));
  await expect.poll(() => ticksSeen.length).toBeGreaterThan(2);
  const numbers = Array.from({ length: 150 }, (_, index) => index % 120);
  expect(ticksSeen.slice(0, 3)).toEqual([numbers.slice(0, 50), numbers.slice(50, 100), numbers.slice(100)]);
  for (const remove of removals) await remove();
});

it("does not count those that are not due", async () => {
  const ticks = makeTicks(DEPS);
  const { ticksSeen, note } = makeNotes();
  const removals = Array.from({ length: 120 }, (_, number) => ticks.add(() => number >= 80 && note(number)));
  await expect.poll(() => ticksSeen[0]?.length).toBe(40);
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
  await expect.poll(() => count).toBeGreaterThan(0);
  vi.useFakeTimers({ toFake: ["Date"], shouldAdvanceTime: true, now: Date.now() + days * 86_400_000 });
  onTestFinished(() => void vi.useRealTimers());
  const before = process.cpuUsage();
  const counted = count;
  await expect.poll(() => count).toBeGreaterThan(counted + 1);
  const { user, system } = process.cpuUsage(before);
  // To look at each second of a day takes half a minute.
  expect((user + system) / 1e6).toBeLessThan(5);
  await remove();
});
