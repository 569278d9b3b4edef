import type { IncomingMessage } from "node:http";
import { isIPv6 } from "node:net";

const LOOPBACK = /^(?:::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$|^::1$/i;

/** Headers that a proxy adds between the client and us; each vendor has its own name for the client's address. */
const PROXY_HEADER = /^(?:forwarded|via|x-forwarded.*|.*-(?:ip|clientip|address))$/;

/** True for 127.0.0.0/8, ::1 and their IPv6-mapped forms; false for anything else, including undefined. */
function isLoopback(address: string | undefined): boolean {
  return address !== undefined && LOOPBACK.test(address);
}

/**
 * True if a program on this machine made the request, addressed to this machine by name.
 *
 * The socket's address decides; headers can only deny. A proxy on this machine makes every client look local, so a
 * request with a proxy header is not local. Neither is a request with another Host: a foreign web page could resolve
 * its own name to 127.0.0.1 and read the answers. A proxy that sends no such header is not recognised, so only
 * LOCAL_TRUST relies on this.
 */
export function isLocalRequest(request: IncomingMessage): boolean {
  if (!isLoopback(request.socket.remoteAddress)) return false;
  if (Object.keys(request.headers).some((name) => PROXY_HEADER.test(name))) return false;
  return namesThisMachine(request.headers.host);
}

/** True if `host`, with or without a port, is a name of this machine that can be trusted without a look-up. */
export function namesThisMachine(host: string | undefined): boolean {
  const name = hostNameOf(host);
  return name === "localhost" || name?.endsWith(".localhost") === true || isLoopback(name);
}

/** The name or address in `host`, with or without a port, in normal form; undefined if it is neither. */
export function hostNameOf(host: string | undefined): string | undefined {
  if (host === undefined) return undefined;
  const url = `http://${isIPv6(host) ? `[${host}]` : host}`;
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[(.*)\]$/, "$1") : undefined;
}

/** False for a request that another site's page made a browser send: browsers say so in one of two headers. */
export function isSameOrigin({ headers }: IncomingMessage): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin";
  const { origin, host } = headers;
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
