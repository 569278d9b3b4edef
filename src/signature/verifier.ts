import { createHmac, timingSafeEqual, verify as verifyEd25519 } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { ConfigurationError } from "../domain/errors.ts";
import { makeCandidateReader } from "./candidates.ts";
import type { Scheme } from "./scheme.ts";
import { readSecrets } from "./secrets.ts";
import { compileFrame, findIdDelimiter, hasPlaceholder, parseTemplate } from "./template.ts";
import { makeTimestampReader } from "./timestamp.ts";

export interface SignedRequest {
  /** Node's `req.headersDistinct`: lower-case names, every occurrence of a header apart. */
  readonly headersDistinct: NodeJS.Dict<string[]>;
  /** The body's bytes as they came, not parsed and written again. */
  readonly body: Buffer;
  /** Seconds since 1970, by the local clock. */
  readonly nowSeconds: number;
}

export type SignatureRefusal =
  | "signature_missing"
  | "signature_repeated"
  | "signature_malformed"
  | "signature_mismatch"
  | "too_many_signatures"
  | "timestamp_missing"
  | "timestamp_repeated"
  | "timestamp_malformed"
  | "timestamp_outside_tolerance"
  | "id_missing"
  | "id_repeated"
  | "id_malformed";

type Verdict =
  | {
      readonly valid: true;
      /** Which of the secrets it was, from 0: when the old one is no longer seen, a rotation is over. */
      readonly secretIndex: number;
      /** The signed id of the event; null for a scheme without one. */
      readonly id: string | null;
    }
  | {
      readonly valid: false;
      /** For logs and counters only: shown to the sender it would help a forger. */
      readonly reason: SignatureRefusal;
    };

export interface Verifier {
  readonly verify: (request: SignedRequest) => Verdict;
  /** A longer body must not be verified: it would take too much time. No limit of the scheme's own: Infinity. */
  readonly bodyBytesMax: number;
  /** What should be bettered though it works; for the log at start. Never holds a secret. */
  readonly warnings: readonly string[];
}

export interface VerifierOptions {
  readonly scheme: Scheme;
  /** All of them are valid; the current one first. */
  readonly secrets: readonly string[];
  /** The public address of the endpoint, as the sender has it; only for schemes that sign {url}. */
  readonly url?: string;
}

const ID_LENGTH_MAX = 256;
/** Node hands headers over byte by byte; a wider character would be cut to a byte when it is signed. */
const ID_CHARACTERS = /^[\x20-\x7e\x80-\xff]+$/;
const URL_CHARACTERS = /^[\x21-\x7e]+$/;
const ED25519_SIGNATURE_BYTES = 64;
/** Enough to change a secret; each costs a hash of the body. */
const SECRETS_MAX = 4;
/**
 * A public key is tried again on each signature, at some 4 ms for a body of 1 MiB, and on our main thread. With these limits
 * a forged request costs no more than one of an HMAC scheme does. An event is a few kilobytes.
 */
const ED25519_LIMITS = { signaturesMax: 2, bodyBytesMax: 131_072 };
const HMACS = {
  "hmac-sha256": { hash: "sha256", bytes: 32 },
  "hmac-sha512": { hash: "sha512", bytes: 64 },
  "hmac-sha1": { hash: "sha1", bytes: 20 },
} as const;

/**
 * Prepares everything that does not depend on the request: template, keys, header names.
 * Throws ConfigurationError, one line per problem, when the secrets or the address do not fit the scheme.
 */
export function loadVerifier({ scheme, secrets, url }: VerifierOptions): Verifier {
  const { parts } = parseTemplate(scheme.signed);
  const { keys, problems, warnings } = readSecrets(secrets, scheme.secretFormat);
  const urlProblem = findUrlProblem(hasPlaceholder(parts, "url"), url);
  const lines = [...problems.map((problem) => `Webhook ${problem}.`), ...(urlProblem ? [urlProblem] : [])];
  if (secrets.length > SECRETS_MAX)
    lines.push(`There are ${secrets.length} webhook secrets; at most ${SECRETS_MAX} can be valid at a time.`);
  if (lines.length > 0) throw new ConfigurationError(lines.join("\n"));

  const frame = compileFrame(parts);
  const { bodyBytesMax = Infinity, ...limits } = scheme.algorithm === "ed25519" ? ED25519_LIMITS : {};
  const readCandidates = makeCandidateReader(scheme, { signatureBytes: signatureBytes(scheme), ...limits });
  const readTimestamp = makeTimestampReader(scheme);
  const findMatch = makeMatcher(scheme, keys);
  const delimiter = findIdDelimiter(parts);

  const readId = (values: string[] | undefined): { id: string } | SignatureRefusal => {
    const id = values?.[0];
    if (values === undefined || id === undefined) return "id_missing";
    if (values.length > 1) return "id_repeated";
    // Were the delimiter allowed within, "a.1" and "a" with the rest in the timestamp would sign the same bytes.
    const cuttable = delimiter !== undefined && id.includes(delimiter);
    return cuttable || id.length > ID_LENGTH_MAX || !ID_CHARACTERS.test(id) ? "id_malformed" : { id };
  };

  const verify = ({ headersDistinct, body, nowSeconds }: SignedRequest): Verdict => {
    const header = readHeader(headersDistinct[scheme.header]);
    if (typeof header === "string") return { valid: false, reason: header };
    const found = readCandidates(header.text);
    if (typeof found === "string") return { valid: false, reason: found };
    const time = readTimestamp(headersDistinct, found.timestamps, nowSeconds);
    if (typeof time === "string") return { valid: false, reason: time };
    const named = scheme.idHeader === null ? null : readId(headersDistinct[scheme.idHeader]);
    if (typeof named === "string") return { valid: false, reason: named };
    const id = named?.id ?? null;
    const values = { id: id ?? "", timestamp: time.text, url: url ?? "" };
    const signed = { before: frame.before(values), body, after: frame.after(values) };
    const secretIndex = findMatch(signed, found.signatures);
    return secretIndex === -1
      ? { valid: false, reason: "signature_mismatch" }
      : { valid: true, secretIndex, id };
  };
  return { verify, bodyBytesMax, warnings };
}

function readHeader(values: string[] | undefined): { text: string } | SignatureRefusal {
  const text = values?.[0];
  if (values === undefined || text === undefined) return "signature_missing";
  return values.length > 1 ? "signature_repeated" : { text };
}

function findUrlProblem(signsUrl: boolean, url: string | undefined): string | undefined {
  if (!signsUrl) return undefined;
  if (url === undefined) return "The webhook scheme signs {url}, but no public address is configured.";
  // A request's own Host header is the sender's to choose, so the address can only come from configuration.
  return URL_CHARACTERS.test(url) ? undefined : "The public address that the scheme signs is not an address.";
}

function signatureBytes({ algorithm }: Scheme): number {
  return algorithm === "ed25519" ? ED25519_SIGNATURE_BYTES : HMACS[algorithm].bytes;
}

interface SignedBytes {
  readonly before: string;
  readonly body: Buffer;
  readonly after: string;
}

type FindMatch = (signed: SignedBytes, signatures: readonly Buffer[]) => number;

/**
 * Index of the secret that one of the signatures was made with, or -1. Every secret is tried with every
 * signature, so that the time taken tells nothing about which one matched.
 */
function makeMatcher(scheme: Scheme, keys: readonly KeyObject[]): FindMatch {
  if (scheme.algorithm === "ed25519") {
    return ({ before, body, after }, signatures) => {
      const message = Buffer.concat([Buffer.from(before, "latin1"), body, Buffer.from(after, "latin1")]);
      return findPair(keys, signatures, (key) => (signature) => verifyEd25519(null, message, key, signature));
    };
  }
  const { hash } = HMACS[scheme.algorithm];
  return ({ before, body, after }, signatures) =>
    findPair(keys, signatures, (key) => {
      const hmac = createHmac(hash, key);
      if (before !== "") hmac.update(before, "latin1");
      hmac.update(body);
      if (after !== "") hmac.update(after, "latin1");
      const digest = hmac.digest();
      return (signature) => timingSafeEqual(digest, signature);
    });
}

function findPair(
  keys: readonly KeyObject[],
  signatures: readonly Buffer[],
  makeTest: (key: KeyObject) => (signature: Buffer) => boolean,
): number {
  let match = -1;
  for (const [index, key] of keys.entries()) {
    const test = makeTest(key);
    for (const signature of signatures) {
      const equal = test(signature);
      if (equal && match === -1) match = index;
    }
  }
  return match;
}
