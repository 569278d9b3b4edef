import type { RequestHandler } from "express";
import { roleOf } from "./login.ts";
import { refuseOtherSites } from "./refuseOtherSites.ts";

const READING = new Set(["GET", "HEAD"]);

/**
 * What changes something needs the operator (405 for a viewer) and must not come from another site's page (403): a
 * browser adds its session by itself, whoever made the request.
 */
export const guardWrites: RequestHandler = (request, response, next) => {
  if (READING.has(request.method)) return next();
  if (roleOf(response) !== "operator") {
    response.set("Allow", "GET, HEAD").status(405).type("text/plain").send("A viewer can only look.\n");
    return;
  }
  return refuseOtherSites(request, response, next);
};
