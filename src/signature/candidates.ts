import { decodeStrictly } from "./encoding.ts";
import type { Scheme } from "./scheme.ts";

/** More than any change of secrets needs. */
const SIGNATURES_MAX = 8;
const HEADER_LENGTH_MAX = 4_096;

export interface Candidates {
  /** Each exactly as long as a signature of the scheme; at least one, at most `signaturesMax`. */
  readonly signatures: readonly Buffer[];
  /** Values of the timestamp's part of the header; empty when the scheme has none. */
  readonly timestamps: readonly string[];
}

type CandidatesRefusal = "signature_malformed" | "too_many_signatures";

/**
 * Makes the reader of the signature's header. It skips what is not a signature of this scheme (other versions,
 * other lengths, other encodings) and refuses a header in which nothing is left.
 */
export function makeCandidateReader(
  { separator, prefix, encoding, timestamp }: Scheme,
  { signatureBytes, signaturesMax = SIGNATURES_MAX }: { signatureBytes: number; signaturesMax?: number },
): (header: string) => Candidates | CandidatesRefusal {
  const timestampPart = timestamp && "part" in timestamp ? timestamp.part : undefined;
  return (header) => {
    if (header.length > HEADER_LENGTH_MAX) return "signature_malformed";
    const signatures: Buffer[] = [];
    const timestamps: string[] = [];
    for (const part of separator === "" ? [header] : header.split(separator)) {
      if (timestampPart !== undefined && part.startsWith(timestampPart)) {
        timestamps.push(part.slice(timestampPart.length));
      } else if (part.startsWith(prefix)) {
        const bytes = decodeStrictly(part.slice(prefix.length), encoding);
        // A prefix of the digest must not do: comparing only as many bytes as came accepts the empty signature.
        if (bytes?.length === signatureBytes) signatures.push(bytes);
      }
    }
    if (signatures.length > signaturesMax) return "too_many_signatures";
    return signatures.length === 0 ? "signature_malformed" : { signatures, timestamps };
  };
}
