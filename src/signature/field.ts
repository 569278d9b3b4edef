import type { Algorithm } from "./algorithms.ts";
import type { SignatureRefusal, SignedRequest } from "./claim.ts";
import { decodeStrictly } from "./encoding.ts";
import { readPlace, unquote } from "./place.ts";
import type { Place } from "./place.ts";
import type { TemplateScheme } from "./scheme.ts";

/** More than any change of secrets needs. */
const SIGNATURES_MAX = 8;
const FIELD_LENGTH_MAX = 4_096;

export function fieldPlace({ header, query }: { header: string | null; query: string | null }): Place {
  return header === null ? { query: query ?? "" } : { header };
}

/** The only value there, after the prefix; two values prove nothing, even if one of them is right. */
export function readSingle(
  place: Place,
  request: SignedRequest,
  prefix: string,
): { readonly text: string } | SignatureRefusal {
  const [text, ...others] = readPlace(place, request);
  if (text === undefined) return "signature_missing";
  if (others.length > 0) return "signature_repeated";
  if (text.length > FIELD_LENGTH_MAX || !text.startsWith(prefix)) return "signature_malformed";
  return { text: text.slice(prefix.length) };
}

/** The content of the header or parameter that carries the signature. */
export interface Field {
  /** Each of a length that a signature of the scheme can have; at least one, at most `signaturesMax`. */
  readonly signatures: readonly Buffer[];
  /** All parts, including signatures. */
  readonly parts: readonly string[];
}

type FieldShape = Pick<TemplateScheme, "separator" | "prefix" | "prefixOn" | "encoding">;

/**
 * Makes the reader of the field that carries the signature, without its lead. It skips what is not a signature of this
 * scheme (other versions, other lengths, other encodings, parts with another meaning) and refuses a field in which
 * nothing is left.
 */
export function makeFieldReader(
  { separator, prefix, prefixOn, encoding }: FieldShape,
  options: {
    fits: Algorithm["fits"];
    labels: readonly (string | number)[];
    signaturesMax?: number | undefined;
  },
): (text: string) => Field | "signature_malformed" | "too_many_signatures" {
  const { fits, labels, signaturesMax = SIGNATURES_MAX } = options;
  const isLabelled = (part: string, number: number) =>
    labels.some((label) => (typeof label === "number" ? label === number : part.startsWith(label)));
  return (text) => {
    const parts = separator === "" ? [text] : text.split(separator).map((part) => part.trim());
    const signatures: Buffer[] = [];
    let follows = false;
    for (const [index, part] of parts.entries()) {
      if (isLabelled(part, index + 1)) continue;
      const isPrefixed = part.startsWith(prefix);
      if (!isPrefixed && !follows) continue;
      follows = prefixOn === "first";
      const bytes = decodeStrictly(unquote(isPrefixed ? part.slice(prefix.length) : part), encoding);
      // A prefix of the digest must not pass: comparing only as many bytes as were sent would accept the empty signature.
      if (bytes && fits(bytes.length)) signatures.push(bytes);
    }
    if (signatures.length > signaturesMax) return "too_many_signatures";
    return signatures.length === 0 ? "signature_malformed" : { signatures, parts };
  };
}
