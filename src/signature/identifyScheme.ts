import { ConfigurationError } from "../domain/errors.ts";
import { makeCandidateReader } from "./candidates.ts";
import { ENCODINGS } from "./encoding.ts";
import { PRESETS } from "./presets.ts";
import { loadScheme } from "./scheme.ts";
import type { Scheme } from "./scheme.ts";
import { parseSeconds } from "./timestamp.ts";
import { loadVerifier } from "./verifier.ts";

/** One request of the provider as it came; the body's bytes must be the ones that were signed. */
export interface CapturedRequest {
  /** Lower-case names, every occurrence of a header apart. */
  readonly headersDistinct: NodeJS.Dict<string[]>;
  readonly body: Buffer;
}

/** A scheme that the request verifies under. */
export interface SchemeMatch {
  /** Value of WEBHOOK_SCHEME: a preset's name, or the JSON of a scheme. */
  readonly setting: string;
  /** The preset that it is, or that it differs from in names, digest or secret format. */
  readonly preset: string;
  /** Header that carries the signature. */
  readonly header: string;
  /** Seconds from the signed time to `nowSeconds`; null when no time is signed. */
  readonly ageSeconds: number | null;
  readonly toleranceSeconds: number;
}

export interface Identification {
  /** The likeliest first; empty when none was found. */
  readonly matches: readonly SchemeMatch[];
  /** Names of the headers that could hold a signature. */
  readonly lookedAt: readonly string[];
  /** Presets left out because they sign the address of the endpoint and none was given. */
  readonly needUrl: readonly string[];
}

interface IdentifyOptions {
  readonly request: CapturedRequest;
  readonly secret: string;
  readonly nowSeconds: number;
  /** The public address of the endpoint, as the sender has it. */
  readonly url?: string | undefined;
}

const SIGNATURE_NAME = /sig|hmac|digest|auth-?token|hash/;
const TIME_NAME = /time|date|^x-.*-ts$/;
const ID_NAME = /(^|-)id$/;
/** Headers of the transport, which sign nothing though they look like it. */
const NOT_SIGNATURES = new Set(["content-digest", "repr-digest", "signature-input"]);
const HMAC_ALGORITHMS = ["hmac-sha256", "hmac-sha512", "hmac-sha1"] as const;
const TEXT_SECRET_FORMATS = ["utf8", "whsec", "base64", "hex"] as const;
/** Ways to join time and body that senders use, beside those of the presets. */
const TIMED_TEMPLATES = [
  "{timestamp}.{body}",
  "{timestamp}:{body}",
  "{timestamp},{body}",
  "{timestamp}{body}",
];
const MILLIS_FROM = 1e11;

/**
 * Finds out how a request was signed: every preset, as it is and under the request's own header names, digests and
 * secret formats. Offline only: trying schemes on requests as they come would let a forger choose the weakest.
 *
 * How old the request is does not matter; it is reported instead.
 */
export function identifyScheme(options: IdentifyOptions): Identification {
  const { request, url } = options;
  const names = Object.keys(request.headersDistinct).sort();
  const presets = Object.keys(PRESETS).map((preset) => ({ preset, scheme: loadScheme(preset) }));
  const usable = presets.filter(({ scheme }) => url !== undefined || !scheme.signed.includes("{url}"));
  const needUrl = presets.filter((each) => !usable.includes(each)).map(({ preset }) => preset);
  const presetHeaders = new Set(presets.map(({ scheme }) => scheme.header));
  const lookedAt = names.filter(
    (name) => !NOT_SIGNATURES.has(name) && (SIGNATURE_NAME.test(name) || presetHeaders.has(name)),
  );

  const matches = new Map<string, SchemeMatch>();
  const add = (match: SchemeMatch | undefined) => {
    if (match && !matches.has(match.setting)) matches.set(match.setting, match);
  };
  for (const { preset, scheme } of usable) add(tryScheme(scheme, preset, options));
  if (matches.size === 0) {
    for (const { preset, scheme } of usable) {
      for (const variant of listVariants(scheme, request, lookedAt)) add(tryScheme(variant, preset, options));
    }
  }
  return { matches: [...matches.values()], lookedAt, needUrl };
}

/** The scheme with this request's header names in place of its own, and with every digest that would fit. */
function* listVariants(
  scheme: Scheme,
  { headersDistinct }: CapturedRequest,
  lookedAt: readonly string[],
): Generator<Scheme> {
  const names = Object.keys(headersDistinct);
  const algorithms = scheme.algorithm === "ed25519" ? [scheme.algorithm] : HMAC_ALGORITHMS;
  const ids = scheme.idHeader === null ? [null] : names.filter((name) => ID_NAME.test(name));
  const readable = (variant: Scheme) => {
    const header = headersDistinct[variant.header]?.[0] ?? "";
    const read = makeCandidateReader(variant, { signatureBytes: SIGNATURE_BYTES[variant.algorithm] });
    return typeof read(header) !== "string";
  };
  for (const header of lookedAt) {
    for (const algorithm of algorithms) {
      for (const encoding of ENCODINGS) {
        const shape = { ...scheme, header, algorithm, encoding };
        // Decided by length alone, before anything is hashed: nearly all combinations end here.
        if (!readable(shape)) continue;
        for (const timestamp of listTimestamps(shape, names)) {
          for (const idHeader of ids) {
            for (const signed of listTemplates(shape)) {
              const variant = { ...shape, timestamp, idHeader, signed };
              if (namesHeadersOnce(variant)) yield variant;
            }
          }
        }
      }
    }
  }
}

function namesHeadersOnce({ header, timestamp, idHeader }: Scheme): boolean {
  const used = [header, timestamp && "header" in timestamp ? timestamp.header : null, idHeader];
  const named = used.filter((name) => name !== null);
  return new Set(named).size === named.length;
}

const SIGNATURE_BYTES: Readonly<Record<Scheme["algorithm"], number>> = {
  "hmac-sha256": 32,
  "hmac-sha512": 64,
  "hmac-sha1": 20,
  ed25519: 64,
};

function listTemplates({ timestamp, idHeader, signed }: Scheme): readonly string[] {
  return timestamp === null || idHeader !== null ? [signed] : [...new Set([signed, ...TIMED_TEMPLATES])];
}

function listTimestamps({ timestamp }: Scheme, names: readonly string[]): Scheme["timestamp"][] {
  if (timestamp === null || "part" in timestamp) return [timestamp];
  return names.filter((name) => TIME_NAME.test(name)).map((header) => ({ ...timestamp, header }));
}

/** The match under the first format of the secret that fits, the scheme's own first; undefined when none does. */
function tryScheme(scheme: Scheme, preset: string, options: IdentifyOptions): SchemeMatch | undefined {
  const { request, secret, nowSeconds, url } = options;
  const dated = withReadableUnit(scheme, request);
  const formats =
    scheme.algorithm === "ed25519"
      ? [scheme.secretFormat]
      : [scheme.secretFormat, ...TEXT_SECRET_FORMATS.filter((format) => format !== scheme.secretFormat)];
  for (const secretFormat of formats) {
    const candidate: Scheme = { ...dated, secretFormat };
    if (!verifies(candidate, { request, secret, nowSeconds, url })) continue;
    const signedAt = readSignedSeconds(candidate, request);
    return {
      setting: describeSetting(candidate, preset),
      preset,
      header: candidate.header,
      ageSeconds: signedAt === undefined ? null : nowSeconds - signedAt,
      toleranceSeconds: candidate.toleranceSeconds,
    };
  }
  return undefined;
}

function verifies(scheme: Scheme, { request, secret, nowSeconds, url }: IdentifyOptions): boolean {
  try {
    const verifier = loadVerifier({
      scheme: { ...scheme, toleranceSeconds: Infinity },
      secrets: [secret],
      ...(url === undefined ? {} : { url }),
    });
    return verifier.verify({ ...request, nowSeconds }).valid;
  } catch (error) {
    // The secret is not of this format.
    if (error instanceof ConfigurationError) return false;
    throw error;
  }
}

/** The signed text is the same in any unit, so the one that the text is written in is taken. */
function withReadableUnit(scheme: Scheme, request: CapturedRequest): Scheme {
  const { timestamp } = scheme;
  if (timestamp === null) return scheme;
  const text = readTimestampText(scheme, request);
  if (text === undefined) return scheme;
  const digits = /^\d+$/.test(text);
  const unit = !digits ? "iso" : Number(text) >= MILLIS_FROM ? "ms" : "s";
  return { ...scheme, timestamp: { ...timestamp, unit } };
}

function readTimestampText({ header, separator, timestamp }: Scheme, { headersDistinct }: CapturedRequest) {
  if (timestamp === null) return undefined;
  if ("header" in timestamp) return headersDistinct[timestamp.header]?.[0];
  const part = headersDistinct[header]?.[0]?.split(separator).find((each) => each.startsWith(timestamp.part));
  return part?.slice(timestamp.part.length);
}

function readSignedSeconds(scheme: Scheme, request: CapturedRequest): number | undefined {
  const text = readTimestampText(scheme, request);
  return scheme.timestamp === null || text === undefined
    ? undefined
    : parseSeconds(text, scheme.timestamp.unit);
}

/** The preset's name where the scheme is exactly it; else JSON of the fields that differ from the defaults. */
function describeSetting(scheme: Scheme, preset: string): string {
  if (JSON.stringify(scheme) === JSON.stringify(loadScheme(preset))) return preset;
  const defaults = loadScheme(
    JSON.stringify({
      header: "unset",
      ...(scheme.algorithm === "ed25519" && { algorithm: "ed25519", secretFormat: "whpk" }),
    }),
  );
  const entries = Object.entries(scheme).filter(
    ([name, value]) =>
      name === "header" ||
      (scheme.algorithm === "ed25519" && ["algorithm", "secretFormat"].includes(name)) ||
      JSON.stringify(value) !== JSON.stringify(defaults[name as keyof Scheme]),
  );
  const text = JSON.stringify(Object.fromEntries(entries));
  // Nothing is recommended that the program would refuse at its start.
  loadScheme(text);
  return text;
}
