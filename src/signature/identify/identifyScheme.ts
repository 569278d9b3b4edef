import { PRESETS } from "../presets.ts";
import { loadScheme } from "../scheme.ts";
import type { Scheme } from "../scheme.ts";
import { needsUrl } from "../verifier.ts";
import { listCandidates, listFields } from "./candidates.ts";
import type { CapturedRequest } from "./candidates.ts";
import { listForms, listTokens } from "./otherForms.ts";
import { ageOf, describeSetting, verifiesAll } from "./prove.ts";
import { searchTemplates } from "./searchTemplates.ts";

/** A scheme with which the requests verify. */
export type SchemeMatch = ReturnType<typeof describe>;

export interface Identification {
  /** The likeliest first; empty when none was found. */
  readonly matches: readonly SchemeMatch[];
  /** Names of the headers and parameters that hold text as long as a signature. */
  readonly lookedAt: readonly string[];
  /** How many texts were signed and compared. */
  readonly tried: number;
  /** Why a matching scheme cannot be used, one sentence each. */
  readonly unsafe: readonly string[];
}

export interface IdentifyOptions {
  /** At least one; further ones confirm what the first one shows. */
  readonly requests: readonly CapturedRequest[];
  /** For a key pair, the public key. */
  readonly secret: string;
  readonly nowSeconds: number;
  /** The public address of the endpoint, as the sender has it. */
  readonly url?: string | undefined;
}

/**
 * Finds out how requests were signed. It signs the parts of the first request in every sequence, with every joiner, hash
 * and format of the secret. It looks for the result in every header and parameter, in every encoding, and derives the
 * form of the field from the surrounding text. Each scheme that it returns verifies all requests with the program's own
 * verifier. Offline only: trying schemes on live requests would let a forger choose the weakest.
 *
 * The age of a request does not matter; the result reports it.
 */
export function identifyScheme(options: IdentifyOptions): Identification {
  const [first] = options.requests;
  if (!first) return { matches: [], lookedAt: [], tried: 0, unsafe: [] };
  const fields = listFields(first);
  const candidates = listCandidates(fields);
  const matches = new Map<string, SchemeMatch>();
  const add = (scheme: Scheme) => {
    const match = describe(scheme, options);
    if (!matches.has(match.setting)) matches.set(match.setting, match);
  };
  const addProved = (schemes: Iterable<Scheme>) => {
    for (const scheme of schemes) if (verifiesAll(scheme, options)) add(scheme);
  };

  addProved(Object.keys(PRESETS).map(loadScheme));
  if (matches.size === 0) addProved(listForms(first, options));
  const search =
    matches.size === 0
      ? searchTemplates(options, { fields, candidates })
      : { schemes: [], tried: 0, unsafe: [] };
  for (const scheme of search.schemes) add(scheme);
  if (matches.size === 0) addProved(listTokens(fields, options));
  const names = candidates.map(({ field: { place } }) => ("header" in place ? place.header : place.query));
  const lookedAt = [...new Set(names)].sort();
  return { matches: [...matches.values()], lookedAt, tried: search.tried, unsafe: search.unsafe };
}

function describe(scheme: Scheme, options: IdentifyOptions) {
  const { requests, nowSeconds } = options;
  const [first] = requests;
  const { setting, preset } = describeSetting(scheme);
  const signedAt = first && ageOf(scheme, first, options);
  return {
    /** Value of WEBHOOK_SCHEME: a preset's name, or the JSON of a scheme. */
    setting,
    scheme,
    /** The name of the preset, if the scheme is one. */
    preset,
    field: scheme.form === "http-message" ? "signature" : (scheme.header ?? scheme.query ?? ""),
    /** From the signed time of the first request to `nowSeconds`; null when no time is signed. */
    ageSeconds: signedAt === undefined ? null : nowSeconds - signedAt,
    toleranceSeconds: scheme.form === "token" ? null : scheme.toleranceSeconds,
    /** How many requests it verified. A single match can be a coincidence. */
    requests: requests.length,
    /** Whether it signs the address of the endpoint, which must then be configured. */
    signsUrl: needsUrl(scheme),
  };
}
