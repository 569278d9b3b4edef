import type { IncomingMessage } from "node:http";

const LOOPBACK = /^(?:::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$|^::1$/i;

/** Headers by which a proxy says that it stands between the client and us. */
const PROXY_HEADERS = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"] as const;

/** True for 127.0.0.0/8, ::1 and their IPv6-mapped forms; false for anything else, undefined included. */
export function isLoopback(address: string | undefined): boolean {
  return address !== undefined && LOOPBACK.test(address);
}

/**
 * True when the request was made by a program on this machine, to this machine by name.
 *
 * The socket's address decides; a header can only take the right away. A proxy on this machine makes every
 * client of the internet look local, so a request that names a proxy is not local. Neither is one whose Host is
 * another name: a web page elsewhere could have that name resolve to 127.0.0.1 and read the answers.
 */
export function isLocalRequest(request: IncomingMessage): boolean {
  if (!isLoopback(request.socket.remoteAddress)) return false;
  if (PROXY_HEADERS.some((name) => request.headers[name] !== undefined)) return false;
  return namesThisMachine(request.headers.host);
}

/** True when `host`, with or without a port, is a name of this machine that needs no look-up to trust. */
export function namesThisMachine(host: string | undefined): boolean {
  if (host === undefined || !URL.canParse(`http://${host}`)) return false;
  const name = new URL(`http://${host}`).hostname.replace(/^\[(.*)\]$/, "$1");
  return name === "localhost" || name.endsWith(".localhost") || isLoopback(name);
}
