import type { KeyObject } from "node:crypto";
import { ConfigurationError } from "../domain/errors.ts";
import type { Algorithm } from "./algorithms.ts";
import type { Claim, FormOptions, ReadRequest, SignatureRefusal, SignedRequest } from "./claim.ts";
import { readJwt } from "./forms/jwtForm.ts";
import { messageNeedsUrl, readMessage } from "./forms/messageForm.ts";
import { readTemplate, signsForm, templateNeedsUrl } from "./forms/templateForm.ts";
import { readToken } from "./forms/tokenForm.ts";
import { algorithmOf, loadScheme } from "./scheme.ts";
import type { Scheme } from "./scheme.ts";
import { readSecrets } from "./secrets.ts";

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
      /** For logs and counters only: it would help a forger if the sender saw it. */
      readonly reason: SignatureRefusal;
    };

export interface Verifier {
  readonly verify: (request: SignedRequest) => Verdict;
  /** A longer body must not be verified, because it would take too long. Infinity when the scheme sets no limit. */
  readonly bodyBytesMax: number;
  /** What works but should be improved; for the log at start. Never contains a secret. */
  readonly warnings: readonly string[];
}

export interface VerifierOptions {
  readonly scheme: Scheme;
  /** All of them are valid; the current one first. */
  readonly secrets: readonly string[];
  /** The public address of the endpoint, as the sender has it; only for schemes that sign it. */
  readonly url?: string | undefined;
}

const URL_CHARACTERS = /^[a-z]+:\/\/[\x21-\x7e]+$/i;
/** Enough to rotate a secret; each costs a hash of the body. */
const SECRETS_MAX = 4;
/**
 * A public key is checked against each signature, which takes about 4 ms of the main thread for a body of 1 MiB. With
 * these limits a forged request costs no more than with an HMAC scheme. An event is a few kilobytes.
 */
const PUBLIC_KEY_LIMITS = { signaturesMax: 2, bodyBytesMax: 131_072 };
const TOKEN_WARNING =
  "the scheme is a token, which does not sign the body: whoever reads one request can forge all others";
const FORM_WARNING = "the scheme signs the fields of a form: events are JSON, and forms are refused with 415";

/** Throws ConfigurationError, one line per problem, when the secrets or the address do not fit the scheme. */
export function loadVerifier({ scheme, secrets, url }: VerifierOptions): Verifier {
  const { keys, problems, warnings } = readSecrets(secrets, scheme);
  const urlProblem = findUrlProblem(scheme, url);
  const lines = [...problems.map((problem) => `Webhook ${problem}.`), ...(urlProblem ? [urlProblem] : [])];
  if (secrets.length > SECRETS_MAX)
    lines.push(`There are ${secrets.length} webhook secrets; at most ${SECRETS_MAX} can be valid at a time.`);
  if (lines.length > 0) throw new ConfigurationError(lines.join("\n"));

  const algorithm = algorithmOf(scheme);
  const { bodyBytesMax = Infinity, signaturesMax } = algorithm.key === "shared" ? {} : PUBLIC_KEY_LIMITS;
  const read = makeReader(scheme, { url, signaturesMax });

  const verify = (request: SignedRequest): Verdict => {
    const reading = read(request);
    if (typeof reading === "string") return { valid: false, reason: reading };
    const secretIndex = findMatch(algorithm, keys, reading.claims);
    return secretIndex === -1
      ? { valid: false, reason: "signature_mismatch" }
      : { valid: true, secretIndex, id: reading.id };
  };
  return { verify, bodyBytesMax, warnings: [...listWarnings(scheme), ...warnings] };
}

/** What a scheme lacks although it is accepted. */
export function listWarnings(scheme: Scheme): string[] {
  if (scheme.form === "token") return [TOKEN_WARNING];
  return scheme.form === "template" && signsForm(scheme) ? [FORM_WARNING] : [];
}

/** Whether the scheme signs the address of the endpoint, which must then be configured. */
export function needsUrl(scheme: Scheme): boolean {
  if (scheme.form === "template") return templateNeedsUrl(scheme);
  return scheme.form === "http-message" && messageNeedsUrl(scheme);
}

export function makeReader(scheme: Scheme, options: FormOptions): ReadRequest {
  if (scheme.form === "template") return readTemplate(scheme, options);
  if (scheme.form === "jwt") return readJwt(scheme);
  return scheme.form === "token" ? readToken(scheme) : readMessage(scheme, options);
}

/**
 * What is wrong with a scheme and its secrets, one sentence each; empty when events can be verified with them.
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

/** What is wrong with the address, for a scheme that signs it. */
function findUrlProblem(scheme: Scheme, url: string | undefined): string | undefined {
  if (!needsUrl(scheme)) return undefined;
  if (url === undefined) return "The webhook scheme signs the address, but no public address is configured.";
  // The sender chooses the Host header, so the address can only come from configuration.
  return URL_CHARACTERS.test(url) ? undefined : "The public address that the scheme signs is not an address.";
}

/** The matching secret, or -1. Each is tried with each signature, so that the time does not show which. */
function findMatch(algorithm: Algorithm, keys: readonly KeyObject[], claims: readonly Claim[]): number {
  let match = -1;
  for (const [index, key] of keys.entries()) {
    for (const { signed, signatures } of claims) {
      const test = algorithm.makeTest(key, signed);
      for (const signature of signatures) {
        const equal = test(signature);
        if (equal && match === -1) match = index;
      }
    }
  }
  return match;
}
