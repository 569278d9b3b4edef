import type { RequestHandler, Response } from "express";
import { viewerOf } from "./viewer.ts";
import { isSameOrigin } from "../../runtime/http/sameOrigin.ts";
import { refuse } from "../html/requests.ts";

const READING = new Set(["GET", "HEAD"]);

/** Refuses (403) what another site's page made a browser send. */
export const refuseOtherSites: RequestHandler = (request, response, next) => {
  if (isSameOrigin(request)) return next();
  refuse(response, 403, "This request came from another site.");
};

/**
 * A change needs the operator (405 for a viewer) and must not come from another site's page (403): browsers attach the
 * session to any request.
 */
export const guardWrites: RequestHandler = (request, response, next) => {
  if (READING.has(request.method)) return next();
  if (viewerOf(response).role !== "operator") {
    return refuse(response.set("Allow", "GET, HEAD"), 405, "A viewer cannot change anything.");
  }
  return refuseOtherSites(request, response, next);
};

/** Refuses an operator of some sources who acts on another source, or on all. */
export function refuseOtherSource(response: Response): void {
  refuse(response, 403, "You may not act on this source.");
}
