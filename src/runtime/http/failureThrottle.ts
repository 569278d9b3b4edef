import { isIPv6 } from "node:net";
import type { Clock } from "../lifecycle/clock.ts";

const FAILURES_PER_ADDRESS_MAX = 10;
/** For all addresses together: an attacker with many machines guesses from each of them. */
const FAILURES_MAX = 200;
const WINDOW_MS = 60_000;
const ADDRESSES_MAX = 10_000;

/**
 * Slows down clients that guess passwords or tokens: an address may fail 10 times within a minute, and all of them
 * together 200 times; beyond that only addresses with an earlier success may try.
 *
 * While an address waits, right values are refused, too: otherwise the limit would only slow down wrong guesses, and
 * the right one would still succeed at full speed.
 */
export function makeFailureThrottle(
  clock: Pick<Clock, "monotonicMs">,
  /** For tests; the product uses the default. */
  { inAllMax = FAILURES_MAX } = {},
) {
  const failures = new Map<string, number[]>();
  const known = makeRecentKeys(ADDRESSES_MAX);
  let inAll: number[] = [];

  const recent = (times: readonly number[] = []) => {
    const oldestMs = clock.monotonicMs() - WINDOW_MS;
    return times.filter((atMs) => atMs > oldestMs);
  };
  /** Seconds until the first of these is a minute old; 0 if they are fewer than `max`. */
  const waitFor = ([first, ...others]: readonly number[], max: number) =>
    first === undefined || others.length + 1 < max
      ? 0
      : Math.ceil((first + WINDOW_MS - clock.monotonicMs()) / 1_000);

  return {
    /** Seconds until this address may try again; 0 when it may now. */
    waitSeconds(address: string): number {
      const key = addressGroup(address);
      const own = waitFor(recent(failures.get(key)), FAILURES_PER_ADDRESS_MAX);
      return known.has(key) ? own : Math.max(own, waitFor(recent(inAll), inAllMax));
    },
    recordFailure(address: string): void {
      const key = addressGroup(address);
      const times = [...recent(failures.get(key)), clock.monotonicMs()].slice(-FAILURES_PER_ADDRESS_MAX);
      inAll = [...recent(inAll), clock.monotonicMs()].slice(-inAllMax);
      // Inserted again at the end, so that the first key is the one that failed longest ago.
      failures.delete(key);
      failures.set(key, times);
      forgetOldest(failures, ADDRESSES_MAX);
    },
    /**
     * From now on, failures of others do not make this address wait. Its own still count: who knows one password must
     * not guess another one faster.
     */
    recordSuccess(address: string): void {
      known.add(addressGroup(address));
    },
  };
}

/** Remembers up to `max` keys; beyond that it forgets the one that was added longest ago. Adding again counts. */
function makeRecentKeys(max: number) {
  const keys = new Set<string>();
  return {
    has: (key: string) => keys.has(key),
    add(key: string): void {
      keys.delete(key);
      keys.add(key);
      forgetOldest(keys, max);
    },
  };
}

function forgetOldest(some: Map<string, unknown> | Set<string>, max: number): void {
  const [oldest] = some.keys();
  if (some.size > max && oldest !== undefined) some.delete(oldest);
}

const WORDS = /[^:]+/g;
const MAPPED_IPV4 = /^::ffff:([^:]+):([^:]+)$/;

/**
 * What counts as one client: an IPv4 address, or the /64 of an IPv6 address, which has one owner. However an address is
 * written, its group is the same; a text that is not an address is a group of its own.
 * @internal
 */
export function addressGroup(address: string): string {
  if (!isIPv6(address)) return address;
  // In a URL each address has one spelling, but no zone.
  const canonical = new URL(`http://[${address.replace(/%.*/, "")}]`).hostname.slice(1, -1);
  const [, high, low] = MAPPED_IPV4.exec(canonical) ?? [];
  // IPv4, as a listener for both families names it. A URL writes a number as an IPv4 address.
  if (high !== undefined && low !== undefined)
    return new URL(`http://0x${high}${low.padStart(4, "0")}`).hostname;
  const omitted = 8 - (canonical.match(WORDS) ?? []).length;
  const whole = canonical.replace("::", `:${"0:".repeat(omitted)}`);
  return (whole.match(WORDS) ?? []).slice(0, 4).join(":");
}
