import type { RequestHandler } from "express";
import { isSameOrigin } from "../../runtime/http/sameOrigin.ts";

/** Refuses (403) requests that another site's page made the browser send. */
export const refuseOtherSites: RequestHandler = (request, response, next) => {
  if (isSameOrigin(request)) return next();
  response.status(403).type("text/plain").send("This request came from another site.\n");
};
