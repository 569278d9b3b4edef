import { BlockList, isIP } from "node:net";

const RANGES: readonly [net: string, prefix: number, family: "ipv4" | "ipv6"][] = [
  ["0.0.0.0", 8, "ipv4"],
  ["10.0.0.0", 8, "ipv4"],
  ["100.64.0.0", 10, "ipv4"],
  ["127.0.0.0", 8, "ipv4"],
  // Link-local: metadata services of clouds hand out credentials there.
  ["169.254.0.0", 16, "ipv4"],
  ["172.16.0.0", 12, "ipv4"],
  ["192.0.0.0", 24, "ipv4"],
  ["192.168.0.0", 16, "ipv4"],
  ["198.18.0.0", 15, "ipv4"],
  ["224.0.0.0", 3, "ipv4"],
  // IPv6 gives out public addresses below 2000::/3 only. Elsewhere, and in the tunnels of these ranges, an address may
  // contain one of IPv4, which a router or a translator on the way reaches.
  ["::", 3, "ipv6"],
  ["2001::", 23, "ipv6"],
  ["2001:db8::", 32, "ipv6"],
  ["2002::", 16, "ipv6"],
  ["3fff::", 20, "ipv6"],
  ["4000::", 2, "ipv6"],
  ["8000::", 1, "ipv6"],
];

// One list for each family: a list takes every address of IPv4 for one of IPv6, too.
const blocked = { ipv4: new BlockList(), ipv6: new BlockList() };
for (const range of RANGES) blocked[range[2]].addSubnet(...range);

/**
 * Whether an IP address belongs to this machine or a private network, is link-local, or is not that of a single host
 * (RFC 6890), also when it is written as IPv6. True for text that is not an address.
 */
export function isPrivateAddress(address: string): boolean {
  const bare = address.replace(/^::ffff:(?=\d+\.)/i, "");
  const family = isIP(bare);
  const type = family === 6 ? "ipv6" : "ipv4";
  return family === 0 || blocked[type].check(bare, type);
}

/** The host of a URL if it is an IP address, without the brackets of IPv6; undefined for a name. */
export function literalAddress({ hostname }: URL): string | undefined {
  const bare = hostname.replace(/^\[(.*)\]$/, "$1");
  return isIP(bare) === 0 ? undefined : bare;
}
