import type { RequestHandler, Response } from "express";
import { viewerOf } from "./viewer.ts";
import { refuseOtherSites } from "./refuseOtherSites.ts";

const READING = new Set(["GET", "HEAD"]);

/**
 * A change needs the operator (405 for a viewer) and must not come from another site's page (403): browsers attach the
 * session to any request.
 */
export const guardWrites: RequestHandler = (request, response, next) => {
  if (READING.has(request.method)) return next();
  if (viewerOf(response).role !== "operator") {
    response
      .set("Allow", "GET, HEAD")
      .status(405)
      .type("text/plain")
      .send("A viewer cannot change anything.\n");
    return;
  }
  return refuseOtherSites(request, response, next);
};

/** Refuses an operator of some sources who acts on another source, or on all. */
export function refuseOtherSource(response: Response): void {
  response.status(403).type("text/plain").send("You may not act on this source.\n");
}
