import { tryDecode } from "../../domain/parseJson.ts";

/** Every write of the provider's contract; others are forwarded only if they are listed. */
const CONTRACT = [
  "POST /v1/orders",
  "POST /v1/orders/quote",
  "PATCH /v1/orders/{reference}",
  "POST /v1/orders/{reference}/cancel",
  "POST /v1/test/orders/{reference}/advance",
  "POST /v1/addresses/validate",
];

const PATTERN = /^(?:POST|PUT|PATCH|DELETE) \/v1(?:\/(?:[A-Za-z0-9_-]+|\{[a-z]+\}))+$/;
/** Keys and webhook endpoints: with them, a token that may order couriers would take over the account. */
const ADMINISTRATION = /key|webhook|secret|token|credential|member|user|billing|subscription/i;

/** The problem of an entry of WRITE_THROUGH_PATHS, if any. */
export function findPathProblem(pattern: string): string | undefined {
  if (!PATTERN.test(pattern))
    return "must be a method and a path from /v1/ on, as PUT /v1/orders/{reference}/address";
  return ADMINISTRATION.test(pattern.replaceAll(/\{[a-z]+\}/g, ""))
    ? "names keys, webhooks or other administration, which is never forwarded"
    : undefined;
}

/**
 * Makes the test whether a write is forwarded: one of the contract's, or of `more`, with whole segments for those in
 * braces. A segment that could lead elsewhere once decoded is refused: `%2F`, `%5C`, `..`, `;`, control characters.
 */
export function makePathGate(more: readonly string[]): (method: string, target: string) => boolean {
  const allowed = [...CONTRACT, ...more].map((pattern) => {
    const [method, path = ""] = pattern.split(" ");
    return { method, segments: path.split("/") };
  });
  return (method, target) => {
    const segments = (target.split("?")[0] ?? "").split("/");
    return allowed.some(
      (each) =>
        each.method === method &&
        each.segments.length === segments.length &&
        each.segments.every((expected, index) => {
          const segment = segments[index] ?? "";
          return expected.startsWith("{")
            ? isPlain(segment) && !ADMINISTRATIVE_NAME.test(segment)
            : segment === expected;
        }),
    );
  };
}

/** Names of sub-resources that would fit where a reference is expected. */
const ADMINISTRATIVE_NAME = /^(?:(?:api[-_])?keys|webhooks|webhook[-_]endpoints)$/;

function isPlain(segment: string): boolean {
  const decoded = tryDecode(segment) ?? "";
  return decoded !== "" && decoded !== "." && decoded !== ".." && !/[/\\;%\p{Cc}]/u.test(decoded);
}
