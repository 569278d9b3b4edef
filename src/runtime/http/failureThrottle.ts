import { isIPv6 } from "node:net";
import type { Clock } from "../lifecycle/clock.ts";

const FAILURES_PER_ADDRESS_MAX = 10;
/** For all addresses together: an attacker with many machines guesses from each of them. */
const FAILURES_MAX = 200;
const WINDOW_MS = 60_000;
const ADDRESSES_MAX = 10_000;

/**
 * Slows down clients that guess passwords: an address may fail 10 times within a minute, and all of them
 * together 200 times; beyond that only addresses with an earlier success may try.
 *
 * While an address waits, right values are refused, too: otherwise the limit would only slow down wrong guesses, and
 * the right one would still succeed at full speed.
 */
export function makeFailureThrottle(clock: Pick<Clock, "monotonicMs">) {
  /** Of the last minute, oldest first. */
  let failures: readonly { readonly group: string; readonly atMs: number }[] = [];
  const known = new Set<string>();

  /** Seconds until fewer than `max` of these are younger than a minute; 0 now. */
  const waitFor = (some: typeof failures, max: number) => {
    const decisive = some.at(-max);
    return decisive === undefined ? 0 : Math.ceil((decisive.atMs + WINDOW_MS - clock.monotonicMs()) / 1_000);
  };

  return {
    /** Seconds until this address may try again; 0 when it may now. */
    waitSeconds(address: string): number {
      const oldestMs = clock.monotonicMs() - WINDOW_MS;
      failures = failures.filter(({ atMs }) => atMs > oldestMs);
      const group = addressGroup(address);
      const own = waitFor(
        failures.filter((failure) => failure.group === group),
        FAILURES_PER_ADDRESS_MAX,
      );
      return known.has(group) ? own : Math.max(own, waitFor(failures, FAILURES_MAX));
    },
    recordFailure(address: string): void {
      const failure = { group: addressGroup(address), atMs: clock.monotonicMs() };
      failures = [...failures, failure].slice(-ADDRESSES_MAX);
    },
    /**
     * From now on, failures of others do not make this address wait. Its own still count: who knows one password must
     * not guess another one faster.
     */
    recordSuccess(address: string): void {
      const group = addressGroup(address);
      // Added again at the end, so that the first is the one whose last success is longest ago.
      known.delete(group);
      known.add(group);
      const [oldest] = known;
      if (known.size > ADDRESSES_MAX && oldest !== undefined) known.delete(oldest);
    },
  };
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
