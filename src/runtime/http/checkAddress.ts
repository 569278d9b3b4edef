import type { IncomingMessage, RequestListener } from "node:http";
import type { Socket } from "node:net";
import { hostNameOf, namesThisMachine } from "../config/loopback.ts";

/** What is answered under any name: health checks come by whatever address a balancer has, and no page is behind them. */
const UNCHECKED_PATH = /^\/(?:livez|readyz)(?:\?|$)/;
const WILDCARDS = ["0.0.0.0", "::"];

/**
 * Forwards requests for a path under a name of ours: 400 for a target that is no path (a proxy's, or an attempt to make
 * one of us), 421 for another name. A page elsewhere could have a name of its own resolve to this machine, and then read
 * what is answered as if it came from its own server.
 *
 * Names of ours are HOST, those of PUBLIC_URL, this machine's, and the address that the connection came to, by which
 * monitoring asks the instances of a process: only a name can be made to lead elsewhere. Where HOST is every address of a machine and PUBLIC_URL
 * is not set, all names are taken: which lead here is not known.
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
