import type { RequestHandler, Response } from "express";
import { viewerOf } from "./viewer.ts";
import { refuseOtherSites } from "./refuseOtherSites.ts";

const READING = new Set(["GET", "HEAD"]);

/**
 * What changes something needs the operator (405 for a viewer) and must not come from another site's page (403): a
 * browser adds its session by itself, whoever made the request.
 */
export const guardWrites: RequestHandler = (request, response, next) => {
  if (READING.has(request.method)) return next();
  if (viewerOf(response).role !== "operator") {
    response.set("Allow", "GET, HEAD").status(405).type("text/plain").send("A viewer can only look.\n");
    return;
  }
  return refuseOtherSites(request, response, next);
};

/** Answers an operator of some sources who would act on another one, or on all. */
export function refuseOtherSource(response: Response): void {
  response.status(403).type("text/plain").send("You may not act on this source.\n");
}
