import helmet from "helmet";
import type { Middleware } from "../api/respond.ts";

const HSTS_SECONDS = 180 * 86_400;

/**
 * Sets the headers of every answer, except to webhooks. Anything but a page may load, run and frame nothing; pages
 * override this with their own policy.
 *
 * HSTS excludes subdomains: they are not ours to decide about. Over plain http browsers ignore it.
 */
export const setAnswerHeaders: Middleware = helmet({
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
