import { isIPv6 } from "node:net";
import type { Clock } from "./clock.ts";

const FAILURES_MAX = 10;
const WINDOW_MS = 60_000;
/** All clients together: who guesses from many addresses gets no further than this. */
const ALL_FAILURES_MAX = 100;

/**
 * Slows down whoever guesses passwords: an address may fail 10 times within a minute, and all addresses together 100
 * times.
 *
 * While an address waits, right values are refused, too: otherwise the limit would only slow down wrong guesses, and
 * the right one would still succeed at full speed.
 */
export function makeFailureThrottle(clock: Pick<Clock, "monotonicMs">) {
  /** Oldest first. */
  let failures: readonly { readonly client: string; readonly atMs: number }[] = [];
  return {
    /** Seconds until this address may try again; 0 when it may now. */
    waitSeconds(address: string): number {
      const nowMs = clock.monotonicMs();
      failures = failures.filter(({ atMs }) => atMs > nowMs - WINDOW_MS);
      const client = nameClient(address);
      const own = failures.filter((failure) => failure.client === client).at(-FAILURES_MAX);
      const decisive = [own, failures.at(-ALL_FAILURES_MAX)].flatMap((failure) => failure?.atMs ?? []);
      return decisive.length === 0 ? 0 : Math.ceil((Math.max(...decisive) + WINDOW_MS - nowMs) / 1_000);
    },
    recordFailure(address: string): void {
      const failure = { client: nameClient(address), atMs: clock.monotonicMs() };
      failures = [...failures, failure].slice(-ALL_FAILURES_MAX);
    },
  };
}

/**
 * The name of one client, for an address as a socket tells it: an IPv4 address, or the /64 of an IPv6 address, which
 * has one owner.
 */
function nameClient(address: string): string {
  // IPv4, as a listener for both families names it.
  const plain = address.replace(/^::ffff:(?=\d+\.)/, "");
  if (!isIPv6(plain)) return plain;
  const [before = "", after = ""] = plain.split("::");
  const [first, last] = [before, after].map((part) => part.split(":").filter((word) => word !== ""));
  const zeros = Array<string>(8 - (first?.length ?? 0) - (last?.length ?? 0)).fill("0");
  return [...(first ?? []), ...zeros, ...(last ?? [])].slice(0, 4).join(":");
}
