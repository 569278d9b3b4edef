import type { IncomingMessage, RequestListener } from "node:http";
import type { Socket } from "node:net";
import { hostNameOf, namesThisMachine } from "./loopback.ts";

/** Paths that are answered under any name: load balancers send health checks to any address, and they show no page. */
const UNCHECKED_PATH = /^\/(?:livez|readyz)(?:\?|$)/;
const WILDCARDS = ["0.0.0.0", "::"];

/**
 * Forwards requests for a path under one of our names. Answers 400 to a target that is not a path (sent to a proxy, or
 * to use this server as one), and 421 to another name. Otherwise a foreign page could point its own name to this
 * machine, and then read answers as if they came from its own server.
 *
 * Our names are HOST, those of PUBLIC_URL, this machine's, and the address that the connection was made to, which
 * monitoring uses for the instances of a process: only a name can be pointed elsewhere. When HOST is every address of a
 * machine and PUBLIC_URL is not set, all names are accepted, because it is not known which of them lead here.
 */
export function checkAddress(
  listener: RequestListener,
  { host, publicUrls }: { host: string; publicUrls: readonly string[] },
): RequestListener {
  const names = new Set([host, ...publicUrls.map((url) => new URL(url).host)].map(hostNameOf));
  const takesAll = publicUrls.length === 0 && WILDCARDS.includes(host);
  const isOurs = ({ headers, socket, url = "" }: IncomingMessage) =>
    takesAll ||
    UNCHECKED_PATH.test(url) ||
    names.has(hostNameOf(headers.host)) ||
    namesThisMachine(headers.host) ||
    isAddressOf(socket, headers.host);
  return (request, response) => {
    if (request.url?.startsWith("/") !== true) {
      refuse(400, "The target of the request must be a path.");
    } else if (!isOurs(request)) {
      refuse(421, "This server is not known by that name. Its operator can add the name to PUBLIC_URL.");
    } else listener(request, response);

    function refuse(status: number, sentence: string): void {
      const body = `${sentence}\n`;
      response.writeHead(status, {
        "Content-Type": "text/plain",
        "Content-Length": body.length,
        "Cache-Control": "no-store",
      });
      response.end(body);
    }
  };
}

function isAddressOf({ localAddress = "" }: Socket, host: string | undefined): boolean {
  return localAddress !== "" && hostNameOf(host) === localAddress.replace(/^::ffff:(?=\d+\.)/, "");
}
