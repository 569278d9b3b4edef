import { ConfigurationError } from "../domain/errors.ts";
import { findAlgorithm } from "./algorithms.ts";
import { loadScheme, type Scheme } from "./scheme.ts";
import { readSigningKey } from "./secrets.ts";
import { fillTemplate, parseTemplate } from "./template.ts";
import { formatTimestamp, sourceOf } from "./verifier.ts";

export interface Signable {
  /** The event's id. */
  readonly id: string;
  readonly body: Buffer;
  /** Seconds since 1970. */
  readonly nowSeconds: number;
}

/**
 * Makes the counterpart of the verifier: the headers that a sender adds to a request. For a key pair `secret` is the
 * private key: `whsk_…`, or hex or base64 of its seed; `url` is only for schemes that sign the address. Throws
 * ConfigurationError when the secret does not fit the scheme.
 */
export function makeSigner(options: {
  readonly scheme: Scheme;
  readonly secret: string;
  readonly url?: string;
}): (signable: Signable) => Record<string, string> {
  const { scheme, secret, url } = options;
  const { lead, prefix, separator, encoding, timestamp } = scheme;
  const key = readSigningKey(secret, scheme);
  if (!key)
    throw new ConfigurationError(
      "The secret to sign with is empty, repeats a short pattern, or does not fit the scheme.",
    );
  const { parts } = parseTemplate(scheme.signed);
  return ({ id, body, nowSeconds }) => {
    const time = formatTimestamp(nowSeconds, timestamp?.unit ?? "s");
    const headers: Record<string, string> = {};
    const texts = parts.map((part) => {
      const source = sourceOf(scheme, part);
      if (!source) return "name" in part ? (url ?? "") : "";
      const { kind, place } = source;
      const header = "header" in place ? place.header : "";
      const text = kind === "timestamp" ? time : id;
      if (header !== "") headers[header] = text;
      return text;
    });
    const signature = findAlgorithm(scheme.algorithm).sign(key, fillTemplate(parts, texts, body));
    const labelled = timestamp && "part" in timestamp ? [timestamp.part + time] : [];
    headers[scheme.header] = lead + [...labelled, prefix + signature.toString(encoding)].join(separator);
    return headers;
  };
}

/**
 * Signs according to Standard Webhooks with each of the secrets. One header holds all signatures, so a receiver that
 * knows one of the secrets accepts the message; this allows secrets to be rotated. Throws ConfigurationError for an
 * unusable secret.
 */
export function makeStandardSigner(
  secrets: readonly string[],
): (signable: Signable) => Record<string, string> {
  const scheme = loadScheme("standard-webhooks");
  const signers = secrets.map((secret) => makeSigner({ scheme, secret }));
  return (signable) => {
    const signed = signers.map((sign) => sign(signable));
    const signatures = signed.map((headers) => headers[scheme.header] ?? "");
    return { ...signed[0], [scheme.header]: signatures.join(" ") };
  };
}
