import { ConfigurationError } from "../domain/errors.ts";
import { sourceOf, splitUrl } from "./forms/templateForm.ts";
import { queryWithout } from "./place.ts";
import type { Place } from "./place.ts";
import { algorithmOf, loadScheme } from "./scheme.ts";
import type { Scheme, TemplateScheme } from "./scheme.ts";
import { readSigningKey } from "./secrets.ts";
import { fillTemplate, parseTemplate } from "./template.ts";
import { formatTimestamp } from "./timestamp.ts";

export interface Signable {
  /** The event's id. It is also used for every other signed value that `values` does not name. */
  readonly id: string;
  readonly body: Buffer;
  /** Seconds since 1970. */
  readonly nowSeconds: number;
  /** Values of further signed headers, parameters and parts, by `header:NAME`, `query:NAME` or `part:LABEL`. */
  readonly values?: Readonly<Record<string, string>>;
}

export interface SignerOptions {
  readonly scheme: Scheme;
  /** For a key pair, the private key: `whsk_…`, PEM, or base64 of its PKCS #8. */
  readonly secret: string;
  /** Where the request goes; only for schemes that sign the address. */
  readonly url?: string;
}

const STANDARD = { signature: "webhook-signature", keyPrefix: "whsk_" };

/**
 * Makes the counterpart of the verifier: the headers that a sender adds to a request. Only schemes with a template can
 * be signed here. Throws ConfigurationError for others, when the secret does not fit, or when something goes into the
 * address.
 */
export function makeSigner(options: SignerOptions): (signable: Signable) => Record<string, string> {
  const { scheme } = options;
  const places = scheme.form === "template" ? [scheme, scheme.timestamp ?? {}] : [];
  if (places.some((place) => "query" in place && place.query !== null))
    throw new ConfigurationError(
      "The scheme puts its signature into the address; only headers can be signed here.",
    );
  const sign = makeSealer(options);
  return (signable) => sign(signable).headers;
}

/** The same for schemes that put something into the address, too. @internal */
export function makeSealer({ scheme, secret, url }: SignerOptions) {
  if (scheme.form !== "template")
    throw new ConfigurationError(`Only schemes with a template can be signed here, not ${scheme.form}.`);
  const key = readSigningKey(secret, scheme);
  if (!key)
    throw new ConfigurationError(
      "The secret to sign with is empty, repeats a short pattern, or does not fit the scheme.",
    );
  const { parts } = parseTemplate(scheme.signed);
  const constants = splitUrl(url);
  return (signable: Signable): { headers: Record<string, string>; query: string } => {
    const { id, body, nowSeconds, values } = signable;
    const texts = new Map<Place, string>();
    const filled = parts.map((part) => {
      const source = sourceOf(scheme, part);
      if (!source) return "name" in part ? (constants[part.name] ?? "") : "";
      const [[kind, name] = ["", ""]] = Object.entries(source.place);
      const time = formatTimestamp(nowSeconds, scheme.timestamp?.unit ?? "s");
      const text = source.kind === "timestamp" ? time : (values?.[`${kind}:${name}`] ?? id);
      texts.set(source.place, text);
      return text;
    });
    const pairs = [...texts].flatMap(([place, text]) =>
      "query" in place ? [`${place.query}=${encodeURIComponent(text)}`] : [],
    );
    const signedTexts = filled.map((text, index) => {
      const part = parts[index];
      return part && "name" in part && part.name === "query" ? queryWithout(pairs.join("&"), null) : text;
    });
    const signature = algorithmOf(scheme).sign(key, fillTemplate(parts, signedTexts, body));
    const field = writeField(scheme, { texts, signature });
    if (scheme.query !== null) pairs.push(`${scheme.query}=${encodeURIComponent(field)}`);
    const headers = Object.fromEntries(
      [...texts].flatMap(([place, text]) => ("header" in place ? [[place.header, text]] : [])),
    ) as Record<string, string>;
    if (scheme.header !== null) headers[scheme.header] = field;
    return { headers, query: pairs.join("&") };
  };
}

/** Labelled parts before the signature, numbered parts in their place. */
function writeField(
  { lead, prefix, separator, encoding }: TemplateScheme,
  { texts, signature }: { texts: ReadonlyMap<Place, string>; signature: Buffer },
): string {
  const numbered: string[] = [];
  const others: string[] = [];
  for (const [place, text] of texts) {
    if (!("part" in place)) continue;
    if (typeof place.part === "number") numbered[place.part - 1] = text;
    else others.push(place.part + text);
  }
  others.push(prefix + signature.toString(encoding));
  // The other parts fill the numbers that no value takes.
  const all: string[] = [];
  for (let at = 0; at < numbered.length || others.length > 0; at += 1)
    all.push(numbered[at] ?? others.shift() ?? "");
  return lead + all.join(separator);
}

/**
 * Signs according to Standard Webhooks with each of the secrets: `whsec_…` by HMAC (v1), `whsk_…` by ed25519 (v1a). One
 * header holds all signatures, so a receiver that knows one of the secrets accepts the message; this allows secrets to
 * be rotated. Throws ConfigurationError when a secret has neither form.
 */
export function makeStandardSigner(
  secrets: readonly string[],
): (signable: Signable) => Record<string, string> {
  const signers = secrets.map((secret) => {
    const preset = secret.startsWith(STANDARD.keyPrefix) ? "standard-webhooks-ed25519" : "standard-webhooks";
    return makeSigner({ scheme: loadScheme(preset), secret });
  });
  return (signable) => {
    const signed = signers.map((sign) => sign(signable));
    const signatures = signed.map((headers) => headers[STANDARD.signature] ?? "");
    return { ...signed[0], [STANDARD.signature]: signatures.join(" ") };
  };
}
