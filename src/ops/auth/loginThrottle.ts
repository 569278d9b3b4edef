import { addressGroup } from "../../runtime/http/addressGroup.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";

export interface LoginThrottle {
  /** Seconds until this address may try again; 0 when it may now. */
  readonly waitSeconds: (address: string) => number;
  readonly recordFailure: (address: string) => void;
}

const FAILURES_MAX = 10;
const WINDOW_MS = 60_000;
const ADDRESSES_MAX = 10_000;

/**
 * Lets an address fail FAILURES_MAX times within a minute.
 *
 * While it waits, right passwords are refused as well: otherwise the limit would only slow down the wrong guesses,
 * and the right one would still come out at full speed.
 */
export function makeLoginThrottle(clock: Clock): LoginThrottle {
  const failures = new Map<string, number[]>();

  const recent = (key: string) => {
    const oldestMs = clock.monotonicMs() - WINDOW_MS;
    return (failures.get(key) ?? []).filter((atMs) => atMs > oldestMs);
  };

  return {
    waitSeconds(address) {
      const [first, ...others] = recent(addressGroup(address));
      if (first === undefined || others.length + 1 < FAILURES_MAX) return 0;
      return Math.ceil((first + WINDOW_MS - clock.monotonicMs()) / 1000);
    },
    recordFailure(address) {
      const key = addressGroup(address);
      const times = [...recent(key), clock.monotonicMs()].slice(-FAILURES_MAX);
      // Put in again at the end, so that the first key is the one that failed longest ago.
      failures.delete(key);
      failures.set(key, times);
      const [oldest] = failures.keys();
      if (failures.size > ADDRESSES_MAX && oldest !== undefined) failures.delete(oldest);
    },
  };
}
