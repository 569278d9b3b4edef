import { ConfigurationError } from "../../domain/errors.ts";
import type { Scheme } from "../scheme.ts";
import { formOf, loadVerifier } from "../verifier.ts";
import { queryOf } from "./candidates.ts";
import type { CapturedRequest } from "./candidates.ts";
import type { IdentifyOptions } from "./identifyScheme.ts";

/** Whether every request verifies, regardless of its age, and none verifies with a different body (except for a token). */
export function verifiesAll(scheme: Scheme, { requests, secret, url, nowSeconds }: IdentifyOptions): boolean {
  try {
    const { verify } = loadVerifier({ scheme: withoutTolerance(scheme), secrets: [secret], url });
    const isValid = (request: CapturedRequest, body: Buffer) =>
      verify({ headersDistinct: request.headersDistinct, query: queryOf(request), body, nowSeconds }).valid;
    return requests.every(
      (request) =>
        isValid(request, request.body) &&
        (scheme.form === "token" || !isValid(request, Buffer.concat([request.body, Buffer.from(" ")]))),
    );
  } catch (error) {
    // The secret is not of this format, or the address is missing.
    if (error instanceof ConfigurationError) return false;
    throw error;
  }
}

/** The instant at which a request says it was signed, in seconds since 1970. */
export function ageOf(
  scheme: Scheme,
  request: CapturedRequest,
  { url, nowSeconds }: Pick<IdentifyOptions, "url" | "nowSeconds">,
): number | undefined {
  const { body, headersDistinct } = request;
  const { read } = formOf(withoutTolerance(scheme), { url });
  const reading = read({ headersDistinct, query: queryOf(request), body, nowSeconds });
  return typeof reading === "string" ? undefined : reading.signedAt;
}

function withoutTolerance(scheme: Scheme): Scheme {
  return scheme.form === "token" ? scheme : { ...scheme, toleranceSeconds: Infinity };
}
