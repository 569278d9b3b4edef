/** A content policy: styles and scripts come only from this host, and nothing is inline, unless `looser` says so. */
export function writePolicy(looser: Readonly<Record<string, string>> = {}): string {
  const rules = {
    "default-src": "'none'",
    "style-src": "'self'",
    "script-src": "'self'",
    "connect-src": "'self'",
    "img-src": "data:",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    ...looser,
  };
  return Object.entries(rules)
    .map((rule) => rule.join(" "))
    .join("; ");
}

export const PAGE_POLICY = writePolicy();
