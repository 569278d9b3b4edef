import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import helmet from "helmet";
import { setHeaders } from "../../http/route.ts";
import type { Middleware } from "../../http/route.ts";

const HSTS_SECONDS = 180 * 86_400;

/**
 * The headers of every answer, except to webhooks. Anything but a page may load, run and frame nothing; pages override
 * this with their own policy.
 *
 * HSTS excludes subdomains: they are not ours to decide about. Over plain http browsers ignore it.
 */
const setProtection = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      "default-src": ["'none'"],
      "base-uri": ["'none'"],
      "form-action": ["'none'"],
      "frame-ancestors": ["'none'"],
    },
  },
  referrerPolicy: { policy: "same-origin" },
  strictTransportSecurity: { maxAge: HSTS_SECONDS, includeSubDomains: false },
  xFrameOptions: { action: "deny" },
});

/** They are the same for each answer, so helmet writes them once. */
const HEADERS = readHeaders();

function readHeaders(): Record<string, string> {
  const headers: Record<string, string> = {};
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  response.setHeader = (name, value) => {
    headers[name] = String(value);
    return response;
  };
  setProtection(response.req, response, () => undefined);
  return headers;
}

export const setAnswerHeaders: Middleware = (_request, response, next) => {
  setHeaders(response, HEADERS);
  // Express adds it before all else.
  response.removeHeader("X-Powered-By");
  next();
};
