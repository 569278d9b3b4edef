import { isIPv6 } from "node:net";
import type { Clock } from "./clock.ts";

const FAILURES_MAX = 10;
const WINDOW_MS = 60_000;
/** Most failures remembered, of all clients together; beyond it the oldest are forgotten. */
const REMEMBERED_MAX = 10_000;

/**
 * Slows down a client that guesses passwords: an address may fail 10 times within a minute.
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
      const decisive = failures.filter((failure) => failure.client === client).at(-FAILURES_MAX);
      return decisive === undefined ? 0 : Math.ceil((decisive.atMs + WINDOW_MS - nowMs) / 1_000);
    },
    recordFailure(address: string): void {
      const failure = { client: nameClient(address), atMs: clock.monotonicMs() };
      failures = [...failures, failure].slice(-REMEMBERED_MAX);
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
