import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { systemClock } from "../../../src/process/clock.ts";

it("sleeps at least as long as asked, by the monotonic clock, and leaves no listener on its signal", async () => {
  const { signal } = new AbortController();
  const startMs = systemClock.monotonicMs();
  await systemClock.sleep(20, signal);
  // Timers round down to whole milliseconds.
  expect(systemClock.monotonicMs() - startMs).toBeGreaterThanOrEqual(19);
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

it("rejects with the signal's own reason when aborted during the sleep or before", async () => {
  const abort = new AbortController();
  const reason = new Error("enough");
  const sleeping = systemClock.sleep(60_000, abort.signal);
  abort.abort(reason);
  await expect(sleeping).rejects.toBe(reason);
  await expect(systemClock.sleep(60_000, abort.signal)).rejects.toBe(reason);
});

it("does not wake early from a sleep longer than Node's timers allow", async () => {
  const abort = new AbortController();
  const sleeping = systemClock.sleep(2 ** 31 + 10, abort.signal);
  const woken = sleeping.then(() => "woke");
  expect(await Promise.race([woken, systemClock.sleep(30).then(() => "asleep")])).toBe("asleep");
  abort.abort(new Error("test over"));
  await expect(woken).rejects.toThrow("test over");
});
