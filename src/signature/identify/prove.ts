import { ConfigurationError } from "../../domain/errors.ts";
import { PRESETS } from "../presets.ts";
import { loadScheme, parseScheme } from "../scheme.ts";
import type { Scheme } from "../scheme.ts";
import { loadVerifier, makeReader } from "../verifier.ts";
import { queryOf } from "./candidates.ts";
import type { CapturedRequest } from "./candidates.ts";
import type { IdentifyOptions } from "./identifyScheme.ts";

/** Whether every request verifies, regardless of its age, and none verifies with a different body (except for a token). */
export function verifiesAll(scheme: Scheme, { requests, secret, url, nowSeconds }: IdentifyOptions): boolean {
  const verifier = attempt(() => loadVerifier({ scheme: withoutTolerance(scheme), secrets: [secret], url }));
  const isValid = (request: CapturedRequest, body: Buffer) =>
    verifier?.verify({ ...request, query: queryOf(request), body, nowSeconds }).valid === true;
  return requests.every(
    (request) =>
      isValid(request, request.body) &&
      (scheme.form === "token" || !isValid(request, Buffer.concat([request.body, Buffer.from(" ")]))),
  );
}

/** The instant at which a request says it was signed, in seconds since 1970. */
export function ageOf(
  scheme: Scheme,
  request: CapturedRequest,
  { url, nowSeconds }: Pick<IdentifyOptions, "url" | "nowSeconds">,
): number | undefined {
  const read = makeReader(withoutTolerance(scheme), { url });
  const reading = read({ ...request, query: queryOf(request), nowSeconds });
  return typeof reading === "string" ? undefined : reading.signedAt;
}

/** The preset's name where the scheme is exactly one; else JSON of the fields that differ from the defaults. */
export function describeSetting(scheme: Scheme): { setting: string; preset: string | null } {
  const whole = JSON.stringify(scheme);
  const preset = Object.keys(PRESETS).find((name) => JSON.stringify(loadScheme(name)) === whole);
  if (preset !== undefined) return { setting: preset, preset };
  let fields: Record<string, unknown> = { ...scheme };
  // A field that can be left out without changing the scheme is redundant.
  for (const name of Object.keys(fields)) {
    const { [name]: left, ...others } = fields;
    if (left !== undefined && JSON.stringify(attempt(() => parseScheme(others))) === whole) fields = others;
  }
  // In single quotes, as in `.env`, a single quote ends the value.
  return { setting: JSON.stringify(fields).replaceAll("'", String.raw`\u0027`), preset: null };
}

/** What `make` returns; undefined, with the reason to `onProblem`, if it throws ConfigurationError. */
export function attempt<Result>(
  make: () => Result,
  onProblem?: (problem: string) => void,
): Result | undefined {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    onProblem?.(error.message);
    return undefined;
  }
}

function withoutTolerance(scheme: Scheme): Scheme {
  return scheme.form === "token" ? scheme : { ...scheme, toleranceSeconds: Infinity };
}
