import { isIPv6 } from "node:net";

const WORDS = /[^:]+/g;
const MAPPED_IPV4 = /^::ffff:([^:]+):([^:]+)$/;

/**
 * What counts as one client: an IPv4 address, or the /64 of an IPv6 address, which has one owner. However an address is
 * written, its group is the same; a text that is not an address is a group of its own.
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
