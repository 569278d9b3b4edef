/**
 * Finds out how captured requests were signed: by all presets, then by the bytes that presets sign under the names and
 * in the form of the headers as found, with the secret in each of its encodings.
 *
 * Whatever it returns verifies every request with the program's own verifier, and none with another body. Offline only:
 * trying schemes on live requests would let a forger choose the weakest. The age of a request does not matter; the
 * result reports it.
 */
import { ConfigurationError } from "../domain/errors.ts";
import { ALGORITHM_NAMES, decodeStrictly, ENCODINGS, findAlgorithm, type Encoding } from "./algorithms.ts";
import {
  PRESETS,
  loadScheme,
  parseScheme,
  SECRET_FORMATS,
  TIMESTAMP_UNITS,
  type Scheme,
  type SecretFormat,
} from "./scheme.ts";
import { readSecrets } from "./secrets.ts";
import {
  loadVerifier,
  makeReader,
  needsUrl,
  parseSeconds,
  unquote,
  type SignatureRefusal,
  type SignedRequest,
} from "./verifier.ts";

/** A request of the provider as received; the bytes of the body must be the ones that were signed. */
export type CapturedRequest = Omit<SignedRequest, "nowSeconds">;

export interface IdentifyOptions {
  /** At least one; further ones confirm what the first one shows. */
  readonly requests: readonly CapturedRequest[];
  /** The secret; of a key pair, the public key. */
  readonly secret: string;
  readonly nowSeconds: number;
  /** The public address of the endpoint, as the sender has it. */
  readonly url?: string | undefined;
}

/** A scheme with which the requests verify. */
export type SchemeMatch = ReturnType<typeof describe>;

export interface Identification {
  /** The likeliest first; empty when none was found. */
  readonly matches: readonly SchemeMatch[];
  /** The preset that came closest, and why it does not verify; null where a scheme matches. */
  readonly closest: { readonly preset: string; readonly reason: SignatureRefusal } | null;
  /** Names of the headers that hold something as long as a signature. */
  readonly lookedAt: readonly string[];
}

export function identifyScheme(options: IdentifyOptions): Identification {
  const [first] = options.requests;
  if (!first) return { matches: [], closest: null, lookedAt: [] };
  const presets = Object.keys(PRESETS).map(loadScheme);
  let found = presets.filter((scheme) => verifiesAll(scheme, options));
  const fields = listFields(first);
  if (found.length === 0) {
    // Schemes of one template differ in the form of the header only, and one request may not tell them apart.
    for (const schemes of listSchemes(first, fields, options.secret)) {
      found = schemes.filter((scheme) => verifiesAll(scheme, options));
      if (found.length > 0) break;
    }
  }
  const matches = found.slice(0, 3).map((scheme) => describe(scheme, options));
  const lookedAt = [...new Set(fields.map(({ header }) => header))].sort();
  return { matches, closest: matches.length > 0 ? null : findClosest(first, options), lookedAt };
}

/** Tells whether every request verifies, regardless of its age, and none with a different body. */
export function verifiesAll(scheme: Scheme, options: IdentifyOptions): boolean {
  const { requests, nowSeconds } = options;
  const verifier = loadTimeless(scheme, options);
  const isValid = (request: CapturedRequest, body: Buffer) =>
    verifier?.verify({ ...request, body, nowSeconds }).valid === true;
  return requests.every(
    (request) =>
      isValid(request, request.body) && !isValid(request, Buffer.concat([request.body, Buffer.from(" ")])),
  );
}

/** Makes a verifier for requests of any age; undefined if the secret or the address does not suit the scheme. */
function loadTimeless(scheme: Scheme, { secret, url }: IdentifyOptions) {
  return attempt(() => loadVerifier({ scheme: withoutTolerance(scheme), secrets: [secret], url }));
}

/** Refusals in the order in which the verifier meets them: the later one came closer. */
const PROGRESS = ["signature_malformed", "id_", "timestamp_", "signature_mismatch"];

function findClosest(first: CapturedRequest, options: IdentifyOptions) {
  const refusals = Object.keys(PRESETS).flatMap((preset) => {
    const verifier = loadTimeless(loadScheme(preset), options);
    const verdict = verifier?.verify({ ...first, nowSeconds: options.nowSeconds });
    if (!verdict || verdict.valid || verdict.reason === "signature_missing") return [];
    const { reason } = verdict;
    return [{ preset, reason, progress: PROGRESS.findIndex((start) => reason.startsWith(start)) }];
  });
  const [closest] = refusals.toSorted((a, b) => b.progress - a.progress);
  return closest ? { preset: closest.preset, reason: closest.reason } : null;
}

/** A header that can carry a signature, split one way. */
interface Field extends Pick<Scheme, "header" | "lead" | "separator" | "prefix"> {
  readonly encoding: Encoding;
  readonly bytes: number;
  /** Parts of the header that are times. */
  readonly times: readonly Time[];
}
type Time = NonNullable<Scheme["timestamp"]>;

/** Everything that a client or a proxy adds automatically. */
const TRANSPORT_NAME =
  /^(?:accept|content-|user-agent$|connection$|host$|transfer-|via$|forwarded|x-forwarded|x-real-ip|cookie|cache-|te$|trace|baggage|cf-|sec-)/;
/** `HMAC `, `Signature `: a word of authentication in front of everything. */
const LEAD = /^[A-Za-z][A-Za-z0-9_-]{0,30} (?=\S)/;
const LABEL = /^[A-Za-z][A-Za-z0-9_.-]{0,30}[=:,]/;
const SEPARATORS = ["", ",", ";", " ", ":", "&", "|", "."] as const;
const ID_NAME = /(?:^|[-_])(?:id|nonce|message|event|delivery)$/;
/** Times from 2001 to 2100: other long numbers are not times. */
const SECONDS_MIN = 978_307_200;
const SECONDS_MAX = 4_102_444_800;

/** Lists every header that occurs once, in every way to read a signature from it. */
function listFields({ headersDistinct }: CapturedRequest): Field[] {
  return Object.entries(headersDistinct).flatMap(([header, values = []]) => {
    const [text = "", ...others] = values;
    if (others.length > 0 || TRANSPORT_NAME.test(header)) return [];
    const leads = new Set(["", LEAD.exec(text)?.[0] ?? ""]);
    return [...leads].flatMap((lead) =>
      SEPARATORS.filter((separator) => text.includes(separator)).flatMap((separator) =>
        splitSignatures(header, { lead, separator, text: text.slice(lead.length) }),
      ),
    );
  });
}

function splitSignatures(
  header: string,
  { lead, separator, text }: { lead: string; separator: Scheme["separator"]; text: string },
): Field[] {
  const parts = separator === "" ? [text] : text.split(separator).map((part) => part.trim());
  const labelOf = (part: string) => LABEL.exec(part)?.[0].replace(separator || /$^/, "") ?? "";
  const times = parts.flatMap((part): Time[] => {
    const label = labelOf(part);
    const unit = label === "" ? undefined : unitOf(unquote(part.slice(label.length)));
    return unit === undefined ? [] : [{ part: label, unit }];
  });
  return parts.flatMap((part) =>
    [...new Set([labelOf(part), ""])].flatMap((prefix) =>
      ENCODINGS.flatMap((encoding): Field[] => {
        const bytes = decodeStrictly(unquote(part.slice(prefix.length)), encoding)?.length ?? 0;
        if (algorithmsFor(bytes).length === 0) return [];
        return [{ header, lead, separator, prefix, encoding, bytes, times }];
      }),
    ),
  );
}

const algorithmsFor = (bytes: number) => ALGORITHM_NAMES.filter((name) => findAlgorithm(name).fits(bytes));

/** The unit in which the text is a time of this century; undefined when it is none. */
function unitOf(text: string): Time["unit"] | undefined {
  return TIMESTAMP_UNITS.find((unit) => {
    const seconds = parseSeconds(text, unit);
    return seconds !== undefined && seconds >= SECONDS_MIN && seconds <= SECONDS_MAX;
  });
}

/** Schemes that the requests may have been signed with, a group per template, those of presets first. */
function* listSchemes(
  request: CapturedRequest,
  fields: readonly Field[],
  secret: string,
): Generator<Scheme[]> {
  const headers = Object.entries(request.headersDistinct).flatMap(([header, values = []]) =>
    values.length === 1 ? [{ header, text: values[0] ?? "" }] : [],
  );
  const headerTimes = headers.flatMap(({ header, text }): Time[] => {
    const unit = unitOf(text);
    return unit === undefined ? [] : [{ header, unit }];
  });
  const idHeaders = headers.filter(({ header }) => ID_NAME.test(header)).map(({ header }) => header);
  const formats = new Map(ALGORITHM_NAMES.map((algorithm) => [algorithm, listFormats(secret, algorithm)]));
  for (const signed of TEMPLATES) {
    const ids = signed.includes("{id}") ? idHeaders : [null];
    yield fields.flatMap(({ bytes, times, ...shape }) => {
      const dated = signed.includes("{timestamp}") ? [...times, ...headerTimes] : [null];
      return algorithmsFor(bytes).flatMap((algorithm) =>
        (formats.get(algorithm) ?? []).flatMap((secretFormat) =>
          dated.flatMap((timestamp) =>
            ids.flatMap((idHeader) => {
              const given = { ...shape, algorithm, secretFormat, signed, timestamp, idHeader };
              return attempt(() => parseScheme(given)) ?? [];
            }),
          ),
        ),
      );
    });
  }
}

/** The signed bytes of the presets, and the same values with another character between them. */
const TEMPLATES = new Set([
  ...Object.keys(PRESETS).map((preset) => loadScheme(preset).signed),
  ...[["{timestamp}"], ["{id}", "{timestamp}"], ["{timestamp}", "{id}"], ["{id}"]].flatMap((values) =>
    [".", ":", "", "\n", "|", ","].map((joiner) => [...values, "{body}"].join(joiner)),
  ),
]);

/** The formats in which the secret is a key for the algorithm; of two that give the same key, the first. */
function listFormats(secret: string, algorithm: Scheme["algorithm"]): SecretFormat[] {
  const seen = new Set<string>();
  const sorted = secret.startsWith("whsec_") ? (["whsec", ...SECRET_FORMATS] as const) : SECRET_FORMATS;
  return sorted.filter((secretFormat) => {
    const scheme = attempt(() => parseScheme({ header: "x-any", algorithm, secretFormat }));
    const key = scheme && readSecrets([secret], scheme).keys[0];
    if (!key) return false;
    const bytes = key.type === "secret" ? key.export() : key.export({ format: "der", type: "spki" });
    const print = bytes.toString("hex");
    return !seen.has(print) && seen.add(print);
  });
}

function describe(scheme: Scheme, { requests, nowSeconds, url }: IdentifyOptions) {
  const whole = JSON.stringify(scheme);
  const preset = Object.keys(PRESETS).find((name) => JSON.stringify(loadScheme(name)) === whole) ?? null;
  const [first] = requests;
  const claim = first && makeReader(withoutTolerance(scheme), { url })({ ...first, nowSeconds });
  const signedAt = typeof claim === "object" ? claim.signedAt : undefined;
  return {
    /** Value of WEBHOOK_SCHEME: a preset's name, or the JSON of a scheme. */
    setting: preset ?? writeSetting(scheme),
    scheme,
    /** The name of the preset, if the scheme is one. */
    preset,
    field: scheme.header,
    /** Seconds from the signed time of the first request to `nowSeconds`; null when no time is signed. */
    ageSeconds: signedAt === undefined ? null : nowSeconds - signedAt,
    /** Number of requests that it verified. A single match can be a coincidence. */
    requests: requests.length,
    /** True if it signs the address of the endpoint, which must then be configured. */
    signsUrl: needsUrl(scheme),
  };
}

/** JSON of the fields that differ from the defaults. */
function writeSetting(scheme: Scheme): string {
  const defaults: Readonly<Record<string, unknown>> = parseScheme({ header: "x-any" });
  const given = Object.entries(scheme).filter(([name, value]) => value !== defaults[name]);
  // In single quotes, as in `.env`, a single quote ends the value.
  return JSON.stringify(Object.fromEntries(given)).replaceAll("'", String.raw`\u0027`);
}

/** Returns what `make` returns; undefined if it throws ConfigurationError. */
function attempt<Result>(make: () => Result): Result | undefined {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return undefined;
  }
}

const withoutTolerance = (scheme: Scheme): Scheme => ({ ...scheme, toleranceSeconds: Infinity });
