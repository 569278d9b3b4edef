import { hash, timingSafeEqual } from "node:crypto";
import { tryParseJson } from "../../domain/parseJson.ts";
import type { Reading, ReadRequest } from "../claim.ts";
import { decodeStrictly } from "../encoding.ts";
import { fieldPlace, readSingle } from "../field.ts";
import { algorithmOf } from "../scheme.ts";
import type { JwtScheme } from "../scheme.ts";
import { findTimeProblem } from "../timestamp.ts";

/**
 * A JSON Web Token (RFC 7519) whose claims hold a hash of the body. The algorithm is the scheme's: a token that names
 * another one is refused, so that a public key is never used as a shared secret, nor `none` as an algorithm.
 */
export function readJwt(scheme: JwtScheme): ReadRequest {
  const place = fieldPlace(scheme);
  const { fits, jwtName } = algorithmOf(scheme);
  return (request): Reading => {
    const field = readSingle(place, request, scheme.prefix);
    if (typeof field === "string") return field;
    const [head = "", claims = "", tail = "", ...rest] = field.text.split(".");
    const signature = decodeStrictly(tail, "base64url");
    if (rest.length > 0 || !signature || !fits(signature.length)) return "signature_malformed";
    const { alg, crit } = parseObject(head);
    // Critical extensions change what a signature means, and none is understood here.
    if (alg !== jwtName || crit !== undefined) return "signature_malformed";
    const fields = parseObject(claims);
    const timeProblem = findClaimProblem(scheme, fields, request.nowSeconds);
    if (timeProblem) return timeProblem;
    if (!isHashOf(request.body, fields[scheme.bodyClaim], scheme)) return "body_mismatch";
    const signedAt = typeof fields["iat"] === "number" ? fields["iat"] : undefined;
    return { claims: [{ signed: [`${head}.${claims}`], signatures: [signature] }], id: null, signedAt };
  };
}

function findClaimProblem(
  { timeClaim, toleranceSeconds }: JwtScheme,
  fields: Readonly<Record<string, unknown>>,
  nowSeconds: number,
) {
  // An expiry time in the token is always enforced, whichever claim the scheme requires.
  const { exp } = fields;
  if (exp !== undefined && !(typeof exp === "number" && nowSeconds <= exp + toleranceSeconds))
    return "timestamp_outside_tolerance";
  if (timeClaim === null) return undefined;
  const seconds = fields[timeClaim];
  if (seconds === undefined) return "timestamp_missing";
  if (typeof seconds !== "number") return "timestamp_malformed";
  // The expiry time may lie ahead by the token's whole lifetime, which the sender chooses.
  if (timeClaim === "exp") return undefined;
  return findTimeProblem(String(Math.floor(seconds)), { unit: "s", toleranceSeconds, nowSeconds });
}

function isHashOf(body: Buffer, claim: unknown, { bodyHash, encoding }: JwtScheme): boolean {
  if (typeof claim !== "string") return false;
  const claimed = decodeStrictly(claim, encoding);
  const expected = hash(bodyHash, body, "buffer");
  return claimed?.length === expected.length && timingSafeEqual(claimed, expected);
}

/** The object that base64url text encodes; an empty one for anything else. */
export function parseObject(text: string): Readonly<Record<string, unknown>> {
  const parsed = tryParseJson(decodeStrictly(text, "base64url")?.toString("utf8") ?? "");
  return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : {};
}
