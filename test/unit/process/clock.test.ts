import { expect, it, vi } from "vitest";
import { systemClock } from "../../../src/process/clock.ts";

it("returns the wall clock's time in nanoseconds", () => {
  const before = BigInt(Date.now()) * 1_000_000n;
  const now = systemClock.now();
  const after = BigInt(Date.now()) * 1_000_000n;
  expect(now >= before && now <= after).toBe(true);
});

it("sleeps at least as long as asked, by the monotonic clock", async () => {
  const startMs = systemClock.monotonicMs();
  await systemClock.sleep(20);
  // Timers round down to whole milliseconds.
  expect(systemClock.monotonicMs() - startMs).toBeGreaterThanOrEqual(19);
});

it("rejects with the signal's own reason when aborted during the sleep", async () => {
  const abort = new AbortController();
  const reason = new Error("enough");
  const sleeping = systemClock.sleep(60_000, abort.signal);
  abort.abort(reason);
  await expect(sleeping).rejects.toBe(reason);
});

it("rejects immediately when the signal was aborted before the sleep", async () => {
  const reason = new Error("enough");
  await expect(systemClock.sleep(60_000, AbortSignal.abort(reason))).rejects.toBe(reason);
});

it("does not wake early from a sleep longer than Node's timers allow", async () => {
  const abort = new AbortController();
  const overflowMs = 2 ** 31 + 10;
  const sleeping = systemClock.sleep(overflowMs, abort.signal);
  const winner = await Promise.race([
    sleeping.then(() => "woke"),
    systemClock.sleep(30).then(() => "asleep"),
  ]);
  expect(winner).toBe("asleep");
  abort.abort(new Error("test over"));
  await expect(sleeping).rejects.toThrow("test over");
});

it("leaves no listener on a signal that outlives many sleeps", async () => {
  const { signal } = new AbortController();
  const added = vi.spyOn(signal, "addEventListener");
  const removed = vi.spyOn(signal, "removeEventListener");
  for (let count = 0; count < 3; count += 1) await systemClock.sleep(0, signal);
  expect(removed.mock.calls.map(([, listener]) => listener)).toEqual(
    added.mock.calls.map(([, listener]) => listener),
  );
  expect(removed).toHaveBeenCalledTimes(3);
});
