import { namesThisMachine } from "../http/loopback.ts";

/** Why `address` cannot be a provider's base address, worded to follow "NAME …"; undefined if it can. */
export function findAddressProblem(address: string): string | undefined {
  if (!URL.canParse(address)) return "must look like https://api.example.com";
  const url = new URL(address);
  if (url.protocol !== "https:" && url.protocol !== "http:") return "must start with https://";
  if (holdsLogin(url)) return "must not contain a user or password; the key goes in a variable";
  if (url.search !== "" || url.hash !== "") return "must not contain a query or a fragment";
  if (/\/v1\/*$/.test(url.pathname)) return "must not end in /v1, which every request adds; remove it";
  if (isUnprotected(url)) {
    return "must start with https://: over http anybody on the way can read the key (only this machine may use http)";
  }
  return undefined;
}

/** Over http anybody on the way can read what is sent, so only this machine may use it. */
export function isUnprotected({ protocol, host }: URL): boolean {
  return protocol === "http:" && !namesThisMachine(host);
}

/** True also when a `/` that was not encoded has ended the password early. */
export function holdsLogin({ username, password, pathname }: URL): boolean {
  return username !== "" || password !== "" || pathname.includes("@");
}

/** True if the provider at `address` runs on this machine, as the sandbox does. */
export function isOnThisMachine(address: string): boolean {
  return URL.canParse(address) && namesThisMachine(new URL(address).host);
}

/** Normalises the address: the case of the host, the default port and trailing slashes do not distinguish providers. */
export function spellAddress(address: string): string {
  const { protocol, host, pathname } = new URL(address);
  return `${protocol}//${host}${trimAddress(pathname)}`;
}

/** `address` without trailing slashes, so that paths can be appended. */
export function trimAddress(address: string): string {
  return address.replace(/\/+$/, "");
}
