import type { IncomingMessage } from "node:http";
import type { RequestHandler } from "express";
import { roleOf } from "./login.ts";

const READING = new Set(["GET", "HEAD"]);

/**
 * What changes something needs the operator (405 for a viewer) and must not come from another site's page (403): a
 * browser adds the password by itself, whoever made the request.
 */
export const guardWrites: RequestHandler = (request, response, next) => {
  if (READING.has(request.method)) return next();
  if (roleOf(response) !== "operator") {
    response.set("Allow", "GET, HEAD").status(405).type("text/plain").send("A viewer can only look.\n");
    return;
  }
  if (!isSameOrigin(request)) {
    response.status(403).type("text/plain").send("This came from another site.\n");
    return;
  }
  next();
};

/** Browsers send one of the two headers with every such request; a program that sends neither is no browser. */
function isSameOrigin(request: IncomingMessage): boolean {
  const site = request.headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin";
  const { origin, host } = request.headers;
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
