/** What counts as one client: an IPv4 address, or the /64 of an IPv6 address, which has one owner. */
export function addressGroup(address: string): string {
  if (!address.includes(":") || address.includes(".")) return address;
  const [head = "", tail] = address.split("::", 2);
  const groups = head.split(":");
  return tail === undefined || groups.length >= 4 ? groups.slice(0, 4).join(":") : head;
}
