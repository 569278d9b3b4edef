import type { IncomingMessage } from "node:http";
import type { RequestHandler } from "express";

/** Refuses (403) what another site's page made a browser send. */
export const refuseOtherSites: RequestHandler = (request, response, next) => {
  if (isSameOrigin(request)) return next();
  response.status(403).type("text/plain").send("This came from another site.\n");
};

/** Browsers send one of the two headers with every such request; a program that sends neither is no browser. */
function isSameOrigin(request: IncomingMessage): boolean {
  const site = request.headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin";
  const { origin, host } = request.headers;
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
