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
 * Makes the counterpart of the verifier: the headers that a sender adds to a request, by default as in Standard
 * Webhooks. With several secrets one header holds the signatures of all, so that a receiver who knows one of them
 * accepts the message; this allows secrets to be rotated. For a key pair a secret is the private key: `whsk_…`, or
 * hex or base64 of its seed; `url` is only for schemes that sign the address. Throws ConfigurationError when a secret
 * does not fit the scheme.
 */
export function makeSigner(options: {
  readonly scheme?: Scheme;
  readonly secrets: readonly string[];
  readonly url?: string;
}): (signable: Signable) => Record<string, string> {
  const { scheme = loadScheme("standard-webhooks"), secrets, url } = options;
  const { lead, prefix, separator, encoding, timestamp } = scheme;
  const { sign } = findAlgorithm(scheme.algorithm);
  const keys = secrets.map((secret) => readSigningKey(secret, scheme)).filter((key) => key !== undefined);
  if (keys.length === 0 || keys.length < secrets.length)
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
    const signed = fillTemplate(parts, texts, body);
    const labelled = timestamp && "part" in timestamp ? [timestamp.part + time] : [];
    const signatures = keys.map((key) => prefix + sign(key, signed).toString(encoding));
    headers[scheme.header] = lead + [...labelled, ...signatures].join(separator);
    return headers;
  };
}
