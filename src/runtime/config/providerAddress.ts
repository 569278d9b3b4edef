import { namesThisMachine } from "./loopback.ts";

/** Why `address` cannot be the base address of a provider, as the end of "NAME …"; undefined when it can. */
export function findAddressProblem(address: string): string | undefined {
  if (!URL.canParse(address)) return "must look like https://api.example.com";
  const url = new URL(address);
  if (url.protocol !== "https:" && url.protocol !== "http:") return "must start with https://";
  if (url.username !== "" || url.password !== "")
    return "must not hold a user or password; the key goes in a variable";
  if (url.search !== "" || url.hash !== "") return "must not hold a query or a fragment";
  if (url.protocol === "http:" && !namesThisMachine(url.host)) {
    return "must start with https://: over http anybody on the way can read the key (only this machine may use http)";
  }
  return undefined;
}

/** True when the provider at `address` runs on this machine, as the sandbox does. */
export function isOnThisMachine(address: string): boolean {
  return URL.canParse(address) && namesThisMachine(new URL(address).host);
}

/** One spelling of the address: case of the host, the usual port and slashes at the end tell no two providers apart. */
export function spellAddress(address: string): string {
  const { protocol, host, pathname } = new URL(address);
  return `${protocol}//${host}${trimAddress(pathname)}`;
}

/** `address` without slashes at its end, so that paths can be appended. */
export function trimAddress(address: string): string {
  return address.replace(/\/+$/, "");
}
