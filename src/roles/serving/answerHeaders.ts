import helmet from "helmet";

const HSTS_SECONDS = 180 * 86_400;

/**
 * The headers of every answer that Express gives. Anything but a page may load, run and frame nothing; pages override
 * this with their own policy.
 *
 * HSTS excludes subdomains: they are not ours to decide about. Over plain http browsers ignore it.
 */
export const setAnswerHeaders = helmet({
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
