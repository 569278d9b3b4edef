import type { Algorithm } from "./algorithms.ts";
import { decodeStrictly } from "./encoding.ts";
import { unquote } from "./place.ts";
import type { TemplateScheme } from "./scheme.ts";

/** More than any change of secrets needs. */
const SIGNATURES_MAX = 8;
const FIELD_LENGTH_MAX = 4_096;

/** The content of the header or parameter that carries the signature. */
export interface Field {
  /** Each of a length that a signature of the scheme can have; at least one, at most `signaturesMax`. */
  readonly signatures: readonly Buffer[];
  /** All parts, including signatures, without the lead. */
  readonly parts: readonly string[];
}

type FieldShape = Pick<TemplateScheme, "lead" | "separator" | "prefix" | "prefixOn" | "encoding">;

/**
 * Makes the reader of the field that carries the signature. It skips what is not a signature of this scheme (other
 * versions, other lengths, other encodings, parts with another meaning) and refuses a field in which nothing is left.
 */
export function makeFieldReader(
  { lead, separator, prefix, prefixOn, encoding }: FieldShape,
  options: { fits: Algorithm["fits"]; labels: readonly (string | number)[]; signaturesMax?: number },
): (text: string) => Field | "signature_malformed" | "too_many_signatures" {
  const { fits, labels, signaturesMax = SIGNATURES_MAX } = options;
  const isLabelled = (part: string, number: number) =>
    labels.some((label) => (typeof label === "number" ? label === number : part.startsWith(label)));
  return (text) => {
    if (text.length > FIELD_LENGTH_MAX || !text.startsWith(lead)) return "signature_malformed";
    const rest = text.slice(lead.length);
    const parts = separator === "" ? [rest] : rest.split(separator).map((part) => part.trim());
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
