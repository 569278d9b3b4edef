import type { Reading, ReadRequest, WriteRequest } from "../claim.ts";
import { decodeStrictly } from "../encoding.ts";
import type { TokenScheme } from "../scheme.ts";
import { fieldPlace, readSingle, sealField } from "./field.ts";

const TOKEN_LENGTH_MAX = 4_096;

/** The secret itself, bare or as Basic authentication. */
export function readToken(scheme: TokenScheme): ReadRequest {
  const { prefix, encoding } = scheme;
  const place = fieldPlace(scheme);
  return (request): Reading => {
    const field = readSingle(place, request);
    if (typeof field === "string") return field;
    if (field.text.length > TOKEN_LENGTH_MAX || !field.text.startsWith(prefix)) return "signature_malformed";
    const text = field.text.slice(prefix.length);
    const token = encoding === "text" ? Buffer.from(text, "latin1") : decodeStrictly(text, encoding);
    if (!token || token.length === 0) return "signature_malformed";
    return { claims: [{ signed: [], signatures: [token] }], id: null };
  };
}

/** The counterpart of the reader. */
export function writeToken(scheme: TokenScheme): WriteRequest {
  const encoding = scheme.encoding === "text" ? "latin1" : scheme.encoding;
  return () => ({
    signed: [],
    seal: (token) => sealField(scheme, { text: scheme.prefix + token.toString(encoding) }),
  });
}
