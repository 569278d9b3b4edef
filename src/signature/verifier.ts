/**
 * Says whether a request was signed with one of the secrets, as the scheme describes, over exactly the bytes received.
 *
 * `loadVerifier` checks the configuration once. `verify` then reads the signature's header, fills the template of the
 * signed bytes from the request, and compares with every secret; nothing is decided before the comparison. A scheme is
 * data (`scheme.ts`), the signed bytes are a template (`template.ts`), and `identify.ts` finds the scheme
 * of a captured request offline. Start at `makeReader`.
 */
import type { KeyObject } from "node:crypto";
import { ConfigurationError } from "../domain/errors.ts";
import { formatInstant, instantFromMillis, tryParseInstant } from "../domain/order/instant.ts";
import { decodeStrictly, findAlgorithm, type Algorithm, type Chunk } from "./algorithms.ts";
import { loadScheme, type Scheme, type TimestampUnit } from "./scheme.ts";
import { isReadable, readSecrets } from "./secrets.ts";
import {
  endsAtBody,
  fillTemplate,
  findDelimiter,
  hasName,
  parseTemplate,
  type TemplatePart,
} from "./template.ts";

/** The parts of a request that matter to its signature. */
export interface SignedRequest {
  /** Node's `req.headersDistinct`: lower-case names, with each occurrence of a header separate. */
  readonly headersDistinct: NodeJS.Dict<string[]>;
  /** The bytes of the body as received, not parsed and serialized again. */
  readonly body: Buffer;
  /** Seconds since 1970, by the local clock. */
  readonly nowSeconds: number;
}

export type SignatureRefusal =
  | `signature_${"missing" | "repeated" | "malformed" | "mismatch"}`
  | `timestamp_${"missing" | "repeated" | "malformed" | "outside_tolerance"}`
  | `id_${"missing" | "repeated" | "malformed"}`
  | "too_many_signatures"
  | "secret_unreadable";

export type Verdict =
  | {
      readonly valid: true;
      /** Which of the secrets matched, from 0: when the old one no longer occurs, a rotation is complete. */
      readonly secretIndex: number;
      /** The signed id of the event; null for a scheme without one. */
      readonly id: string | null;
    }
  | {
      readonly valid: false;
      /** The reason, for logs and counters only: it would help a forger if the sender saw it. */
      readonly reason: SignatureRefusal;
    };

export interface Verifier {
  readonly verify: (request: SignedRequest) => Verdict;
  /** A longer body must not be verified, because it would take too long. Infinity when the scheme sets no limit. */
  readonly bodyBytesMax: number;
  /** The headers that the scheme reads, in lower case, without the signature's own. */
  readonly headers: readonly string[];
  /** Warnings about what works but should be improved; for the log at start. They never contain a secret. */
  readonly warnings: readonly string[];
}

export interface VerifierOptions {
  readonly scheme: Scheme;
  /** Secrets that are valid at this time; the current one first. */
  readonly secrets: readonly string[];
  /** The public address of the endpoint, as the sender has it; only for schemes that sign it. */
  readonly url?: string | undefined;
}

const URL_CHARACTERS = /^[a-z]+:\/\/[\x21-\x7e]+$/i;
/** Secrets enough to rotate one; each costs a hash of the body. */
const SECRETS_MAX = 4;
/** More than any change of secrets needs. */
const SIGNATURES_MAX = 8;
/**
 * A public key is checked against each signature, which takes about 4 ms of the main thread for a body of 1 MiB. With
 * these limits a forged request costs no more than with an HMAC scheme. An event is a few kilobytes.
 */
const PUBLIC_KEY_LIMITS = { signaturesMax: 2, bodyBytesMax: 131_072 };
const FIELD_LENGTH_MAX = 4_096;
const ID_LENGTH_MAX = 256;
/** Node passes headers byte by byte; a wider character would be truncated to one byte when it is signed. */
const ID_CHARACTERS = /^[\x20-\x7e\x80-\xff]*$/;
const BRACE = 0x7b;
/** Lenient parsing would accept "1614265330abc" as a time, although a different text was signed. */
const DIGITS = /^(0|[1-9]\d{0,14})$/;
const NANOS_PER_SECOND = 1e9;

/** Throws ConfigurationError, one line per problem, when the secrets or the address do not fit the scheme. */
export function loadVerifier({ scheme, secrets, url }: VerifierOptions): Verifier {
  const { keys, problems, warnings } = readSecrets(secrets, scheme);
  const urlProblem = findUrlProblem(scheme, url);
  const lines = [...problems.map((problem) => `Webhook ${problem}.`), ...(urlProblem ? [urlProblem] : [])];
  if (secrets.length > SECRETS_MAX)
    lines.push(`There are ${secrets.length} webhook secrets; at most ${SECRETS_MAX} can be valid at a time.`);
  if (lines.length > 0) throw new ConfigurationError(lines.join("\n"));

  const algorithm = findAlgorithm(scheme.algorithm);
  const { bodyBytesMax = Infinity, signaturesMax } = algorithm.key === "shared" ? {} : PUBLIC_KEY_LIMITS;
  const read = makeReader(scheme, { url, signaturesMax });

  const { timestamp, idHeader } = scheme;
  const headers = [idHeader, timestamp && "header" in timestamp ? timestamp.header : null];
  const verify = (request: SignedRequest): Verdict => {
    const claim = read(request);
    if (typeof claim === "string") return { valid: false, reason: claim };
    const secretIndex = findMatch(algorithm, keys, claim);
    return secretIndex === -1
      ? { valid: false, reason: "signature_mismatch" }
      : { valid: true, secretIndex, id: claim.id };
  };
  return { verify, bodyBytesMax, warnings, headers: headers.filter((name) => name !== null) };
}

/**
 * Tells whether none of the secrets is written as the scheme writes them: they are probably right, and the scheme is
 * another one, which refused requests will show.
 */
export function isForeignSecret(schemeText: string, secrets: readonly string[]): boolean {
  const scheme = loadScheme(schemeText);
  return secrets.length > 0 && !secrets.some((secret) => isReadable(secret, scheme));
}

/** Refuses every request, so that the scheme of a foreign secret can be found from them. */
export const REFUSING_VERIFIER: Verifier = {
  verify: () => ({ valid: false, reason: "secret_unreadable" }),
  bodyBytesMax: Infinity,
  headers: [],
  warnings: [
    "no webhook secret is written as WEBHOOK_SCHEME needs it, so every event is refused: copy the secret again, or set CAPTURE_REFUSED=10, wait for events, and run `order-mirror identify-signature`",
  ],
};

/**
 * Lists what is wrong with a scheme and its secrets, one sentence each; empty when events can be verified with them.
 * Without secrets, only the scheme is checked. `url` is the public address of the endpoint, if it is configured. No
 * sentence contains a secret.
 */
export function checkScheme(schemeText: string, secrets: readonly string[], url?: string): string[] {
  try {
    const scheme = loadScheme(schemeText);
    if (secrets.length > 0) loadVerifier({ scheme, secrets, url });
    return [];
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const lines = error.message.split("\n");
    return error.fix === undefined ? lines : [...lines.slice(0, -1), `${lines.at(-1)} ${error.fix}`];
  }
}

/** Tells whether the scheme signs the address of the endpoint, which must then be configured. */
export function needsUrl({ signed }: Scheme): boolean {
  return hasName(parseTemplate(signed).parts, "url");
}

function findUrlProblem(scheme: Scheme, url: string | undefined): string | undefined {
  if (!needsUrl(scheme)) return undefined;
  if (url === undefined) return "The webhook scheme signs the address, but no public address is configured.";
  // The sender chooses the Host header, so the address can only come from configuration.
  return URL_CHARACTERS.test(url) ? undefined : "The public address that the scheme signs is not an address.";
}

/** The matching secret, or -1. Each is tried with each signature, so that the time does not show which. */
function findMatch(algorithm: Algorithm, keys: readonly KeyObject[], { signed, signatures }: Claim): number {
  let match = -1;
  for (const [index, key] of keys.entries()) {
    const test = algorithm.makeTest(key, signed);
    for (const signature of signatures) {
      const equal = test(signature);
      if (equal && match === -1) match = index;
    }
  }
  return match;
}

/** Claims of a request before anything is proved: these bytes, and signatures of them. */
interface Claim {
  readonly signed: readonly Chunk[];
  readonly signatures: readonly Buffer[];
  readonly id: string | null;
  /** Time of signing, as the request says, in seconds since 1970. */
  readonly signedAt: number | undefined;
}

/** Makes the reader of what a request claims; it returns why a request cannot be verified. */
export function makeReader(
  scheme: Scheme,
  options: { url?: string | undefined; signaturesMax?: number | undefined },
): (request: SignedRequest) => Claim | SignatureRefusal {
  const { parts } = parseTemplate(scheme.signed);
  const readers = parts.map((_, index) => makeTextReader(scheme, { parts, index, url: options.url }));
  const [idAt = -1, timeAt = -1] = ["id", "timestamp"].map((name) =>
    parts.findIndex((part) => "name" in part && part.name === name),
  );
  const needsBrace = endsAtBody(parts);
  const unit = scheme.timestamp?.unit ?? "s";

  return (request) => {
    const [text, ...others] = request.headersDistinct[scheme.header] ?? [];
    if (text === undefined) return "signature_missing";
    // Two values prove nothing, even if one of them is right.
    if (others.length > 0) return "signature_repeated";
    if (text.length > FIELD_LENGTH_MAX || !text.startsWith(scheme.lead)) return "signature_malformed";
    const fieldParts = splitField(scheme, text);
    const signatures = readSignatures(scheme, fieldParts);
    if (signatures.length > (options.signaturesMax ?? SIGNATURES_MAX)) return "too_many_signatures";
    if (signatures.length === 0) return "signature_malformed";
    if (needsBrace && request.body[0] !== BRACE) return "id_malformed";
    const texts: string[] = [];
    for (const read of readers) {
      const value = read(request, fieldParts);
      if (typeof value === "string") return value;
      texts.push(value.text);
    }
    const signedAt = parseSeconds(texts[timeAt] ?? "", unit);
    const signed = fillTemplate(parts, texts, request.body);
    return { signed, signatures, id: texts[idAt] ?? null, signedAt };
  };
}

/** The parts of the header that carries the signature, without its lead. */
function splitField({ lead, separator }: Pick<Scheme, "lead" | "separator">, text: string): string[] {
  const rest = text.slice(lead.length);
  return separator === "" ? [rest] : rest.split(separator).map((part) => part.trim());
}

/** Skips what is not a signature of this scheme: other versions, lengths and encodings, parts with another meaning. */
function readSignatures(scheme: Scheme, parts: readonly string[]): Buffer[] {
  const { algorithm, encoding, prefix } = scheme;
  const { fits } = findAlgorithm(algorithm);
  const signatures: Buffer[] = [];
  for (const part of parts) {
    if (!part.startsWith(prefix)) continue;
    const bytes = decodeStrictly(unquote(part.slice(prefix.length)), encoding);
    // A prefix of the digest must not pass: comparing only as many bytes as were sent would accept the empty signature.
    if (bytes && fits(bytes.length)) signatures.push(bytes);
  }
  return signatures;
}

/** Makes the reader of one part's text; it returns why there is none. */
function makeTextReader(
  scheme: Scheme,
  context: { parts: readonly TemplatePart[]; index: number; url: string | undefined },
): (request: SignedRequest, fieldParts: readonly string[]) => { readonly text: string } | SignatureRefusal {
  const { parts, index, url } = context;
  const part = parts[index];
  const source = part && sourceOf(scheme, part);
  if (!source) {
    const constant = { text: part && "name" in part ? (url ?? "") : "" };
    return () => constant;
  }
  const { kind, place } = source;
  const delimiter = findDelimiter(parts, index, url) ?? "";
  const findProblem = (text: string, nowSeconds: number) => {
    if (kind === "timestamp") {
      const seconds = parseSeconds(text, place.unit);
      if (seconds === undefined) return "timestamp_malformed";
      const isNear = Math.abs(nowSeconds - seconds) <= scheme.toleranceSeconds;
      return isNear ? undefined : "timestamp_outside_tolerance";
    }
    const isFine = text !== "" && text.length <= ID_LENGTH_MAX && ID_CHARACTERS.test(text);
    return isFine && (delimiter === "" || !text.includes(delimiter))
      ? undefined
      : (`${kind}_malformed` as const);
  };
  return ({ headersDistinct, nowSeconds }, fieldParts) => {
    const [text, ...others] =
      "header" in place
        ? (headersDistinct[place.header] ?? [])
        : fieldParts.flatMap((each) =>
            each.startsWith(place.part) ? [unquote(each.slice(place.part.length))] : [],
          );
    if (text === undefined) return `${kind}_missing`;
    // The text is signed as received.
    return others.length > 0 ? `${kind}_repeated` : (findProblem(text, nowSeconds) ?? { text });
  };
}

/** Finds where the request holds the text of a part; undefined for what it does not hold. */
export function sourceOf({ idHeader, timestamp }: Scheme, part: TemplatePart) {
  if (!("name" in part)) return undefined;
  if (part.name === "id" && idHeader !== null) return { kind: "id", place: { header: idHeader } } as const;
  return part.name === "timestamp" && timestamp
    ? ({ kind: "timestamp", place: timestamp } as const)
    : undefined;
}

export function unquote(text: string): string {
  return text.length >= 2 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
}

/** The time of signing in seconds since 1970, or undefined when it is not written in that unit. */
export function parseSeconds(text: string, unit: TimestampUnit): number | undefined {
  if (unit === "iso") {
    const instant = tryParseInstant(text);
    return instant === undefined ? undefined : Number(instant) / NANOS_PER_SECOND;
  }
  if (!DIGITS.test(text)) return undefined;
  return unit === "ms" ? Number(text) / 1_000 : Number(text);
}

/** `nowSeconds` as the scheme writes it. */
export function formatTimestamp(nowSeconds: number, unit: TimestampUnit): string {
  if (unit === "iso") return formatInstant(instantFromMillis(nowSeconds * 1_000));
  return String(Math.floor(unit === "ms" ? nowSeconds * 1_000 : nowSeconds));
}
