import type { Reading, ReadRequest } from "../claim.ts";
import { decodeStrictly } from "../encoding.ts";
import { fieldPlace, readSingle } from "../field.ts";
import type { TokenScheme } from "../scheme.ts";

export function readToken(scheme: TokenScheme): ReadRequest {
  const { prefix, encoding } = scheme;
  const place = fieldPlace(scheme);
  return (request): Reading => {
    const field = readSingle(place, request, prefix);
    if (typeof field === "string") return field;
    const { text } = field;
    const token = encoding === "text" ? Buffer.from(text, "latin1") : decodeStrictly(text, encoding);
    if (!token || token.length === 0) return "signature_malformed";
    return { claims: [{ signed: [], signatures: [token] }], id: null };
  };
}
