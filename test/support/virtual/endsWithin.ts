import { vi } from "vitest";

const PATIENCE = { timeout: 60_000, interval: 20 };

/**
 * Whether `work` ends although the program's timers run for no longer than `limitMs`: later ones never fire. How long the
 * machine takes does not count.
 */
export async function endsWithin(limitMs: number, work: () => Promise<unknown>): Promise<boolean> {
  let ended = false;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const working = work().then(() => (ended = true));
  await vi.advanceTimersByTimeAsync(limitMs);
  vi.useRealTimers();
  return Promise.race([working, vi.waitUntil(() => ended, PATIENCE).catch(() => false)]);
}
