import { ConfigurationError } from "../../domain/errors.ts";
import { parseObject } from "../forms/jwtForm.ts";
import { makeFieldReader } from "../field.ts";
import { readPlace } from "../place.ts";
import { algorithmOf } from "../scheme.ts";
import type { Scheme } from "../scheme.ts";
import { parseSeconds } from "../timestamp.ts";
import { loadVerifier } from "../verifier.ts";
import { queryOf } from "./candidates.ts";
import type { CapturedRequest } from "./candidates.ts";
import type { IdentifyOptions } from "./identifyScheme.ts";

/** Whether every request verifies, regardless of its age, and none verifies with a different body (except for a token). */
export function verifiesAll(scheme: Scheme, { requests, secret, url, nowSeconds }: IdentifyOptions): boolean {
  const ageless = scheme.form === "token" ? scheme : { ...scheme, toleranceSeconds: Infinity };
  try {
    const { verify } = loadVerifier({ scheme: ageless, secrets: [secret], url });
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
export function ageOf(scheme: Scheme, request: CapturedRequest): number | undefined {
  const { headersDistinct } = request;
  if (scheme.form === "jwt") {
    const token = headersDistinct[scheme.header ?? ""]?.[0]?.slice(scheme.prefix.length) ?? "";
    const seconds = parseObject(token.split(".")[1] ?? "")["iat"];
    return typeof seconds === "number" ? seconds : undefined;
  }
  if (scheme.form === "http-message") {
    const created = /;created=(\d+)/.exec(headersDistinct["signature-input"]?.[0] ?? "")?.[1];
    return created === undefined ? undefined : Number(created);
  }
  if (scheme.form === "token" || scheme.timestamp === null) return undefined;
  const { timestamp } = scheme;
  const requestValues = { headersDistinct, query: queryOf(request) };
  const place = scheme.header === null ? { query: scheme.query ?? "" } : { header: scheme.header };
  const labels = "part" in timestamp ? [timestamp.part] : [];
  const field = makeFieldReader(scheme, { fits: algorithmOf(scheme).fits, labels })(
    readPlace(place, requestValues)[0] ?? "",
  );
  const parts = typeof field === "string" ? [] : field.parts;
  const text = readPlace(timestamp, requestValues, parts)[0];
  return text === undefined ? undefined : parseSeconds(text, timestamp.unit);
}
