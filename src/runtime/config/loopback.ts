import type { IncomingMessage } from "node:http";
import { isIPv6 } from "node:net";

const LOOPBACK = /^(?:::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$|^::1$/i;

/** Headers by which a proxy says that it stands between the client and us. */
const PROXY_HEADER =
  /^(?:forwarded|via|x-forwarded.*|x-real-ip|x-client-ip|true-client-ip|cf-connecting-ip)$/;

/** True for 127.0.0.0/8, ::1 and their IPv6-mapped forms; false for anything else, undefined included. */
export function isLoopback(address: string | undefined): boolean {
  return address !== undefined && LOOPBACK.test(address);
}

/**
 * True when the request was made by a program on this machine, to this machine by name.
 *
 * The socket's address decides; a header can only take the right away. A proxy on this machine makes every
 * client of the internet look local, so a request that names a proxy is not local. Neither is one whose Host is
 * another name: a web page elsewhere could have that name resolve to 127.0.0.1 and read the answers. A proxy that says
 * nothing of itself is not recognised: so nothing trusts this but what LOCAL_TRUST lets.
 */
export function isLocalRequest(request: IncomingMessage): boolean {
  if (!isLoopback(request.socket.remoteAddress)) return false;
  if (Object.keys(request.headers).some((name) => PROXY_HEADER.test(name))) return false;
  return namesThisMachine(request.headers.host);
}

/** True when `host`, with or without a port, is a name of this machine that needs no look-up to trust. */
export function namesThisMachine(host: string | undefined): boolean {
  const name = hostNameOf(host);
  return name === "localhost" || name?.endsWith(".localhost") === true || isLoopback(name);
}

/** The name or address in `host`, with or without a port, in its normal form; undefined when it is neither. */
export function hostNameOf(host: string | undefined): string | undefined {
  if (host === undefined) return undefined;
  const url = `http://${isIPv6(host) ? `[${host}]` : host}`;
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[(.*)\]$/, "$1") : undefined;
}
