import { hash, timingSafeEqual } from "node:crypto";
import { httpbis } from "http-message-signatures";
import { parseDictionary, serializeInnerList, serializeItem } from "structured-headers";
import type { InnerList } from "structured-headers";
import type { Claim, FormOptions, Reading, ReadRequest, SignatureRefusal, SignedRequest } from "../claim.ts";
import { algorithmOf } from "../scheme.ts";
import type { MessageScheme } from "../scheme.ts";
import { findTimeProblem } from "../timestamp.ts";

const LABELS_MAX = 4;
const COMPONENTS_MAX = 24;
const FIELD_LENGTH_MAX = 4_096;
/** Components that a request has and that can be derived from the configured address. */
const DERIVED = /^@(?:method|target-uri|authority|scheme|request-target|path|query|query-param)$/;
const DIGESTS = { "sha-256": "sha256", "sha-512": "sha512" } as const;

/**
 * HTTP Message Signatures (RFC 9421). Each label signs what it lists; of those that cover everything the scheme requires,
 * one must prove true. The body is covered by Content-Digest, which is computed again.
 */
export function readMessage(
  scheme: MessageScheme,
  { url, signaturesMax = LABELS_MAX }: FormOptions,
): ReadRequest {
  const { fits } = algorithmOf(scheme);
  return (request): Reading => {
    const inputs = readDictionary(request, "signature-input");
    const signatures = readDictionary(request, "signature");
    if (typeof inputs === "string") return inputs;
    if (typeof signatures === "string") return signatures;
    if (inputs.size > signaturesMax) return "too_many_signatures";
    const claims: Claim[] = [];
    let refusal: SignatureRefusal = "signature_malformed";
    let signedAt: number | undefined;
    for (const [label, input] of inputs) {
      if (scheme.label !== null && scheme.label !== label) continue;
      const value = signatures.get(label)?.[0];
      const signature = value instanceof ArrayBuffer ? Buffer.from(value) : undefined;
      if (!signature || !fits(signature.length) || !isInnerList(input)) continue;
      const problem = findInputProblem(scheme, input, request.nowSeconds);
      if (problem) refusal = problem;
      else {
        const signed = makeBase(input, { request, url });
        if (signed === undefined) continue;
        claims.push({ signed: [signed], signatures: [signature] });
        signedAt ??= Number(input[1].get("created"));
      }
    }
    if (claims.length === 0) return refusal;
    return isDigestOf(request) ? { claims, id: null, signedAt } : "body_mismatch";
  };
}

/** Whether the scheme needs the address of the endpoint, as the sender has it. */
export function messageNeedsUrl({ components }: MessageScheme): boolean {
  return components.some((name) => name.startsWith("@") && name !== "@method");
}

type Member = ReturnType<typeof parseDictionary> extends Map<string, infer Value> ? Value : never;

function readDictionary(
  { headersDistinct }: SignedRequest,
  name: string,
): Map<string, Member> | SignatureRefusal {
  const values = headersDistinct[name];
  if (values === undefined) return "signature_missing";
  // Two lines of a structured field are one list (RFC 9651); of a repeated label, the last occurrence counts.
  const text = values.join(", ");
  if (text.length > FIELD_LENGTH_MAX) return "signature_malformed";
  try {
    return parseDictionary(text);
  } catch {
    return "signature_malformed";
  }
}

function isInnerList(member: Member): member is InnerList {
  return Array.isArray(member[0]);
}

function findInputProblem(
  scheme: MessageScheme,
  [items, parameters]: InnerList,
  nowSeconds: number,
): SignatureRefusal | undefined {
  const names = items.map(([name]) => name);
  const bare = items.filter(([, own]) => own.size === 0).map(([name]) => name);
  if (names.length > COMPONENTS_MAX) return "signature_malformed";
  // `;req` and `;tr` would take a value from elsewhere, so components with parameters do not meet the requirement.
  if (scheme.components.some((name) => !bare.includes(name))) return "signature_malformed";
  const alg = parameters.get("alg");
  if (alg !== undefined && String(alg) !== algorithmOf(scheme).messageName) return "signature_malformed";
  const expires = parameters.get("expires");
  if (expires !== undefined && !(typeof expires === "number" && nowSeconds <= expires))
    return "timestamp_outside_tolerance";
  const created = parameters.get("created");
  if (created === undefined) return "timestamp_missing";
  if (typeof created !== "number") return "timestamp_malformed";
  return findTimeProblem(String(created), {
    unit: "s",
    toleranceSeconds: scheme.toleranceSeconds,
    nowSeconds,
  });
}

/** The signature base of section 2.5; undefined when a component is missing, unknown or cannot be derived. */
function makeBase(
  [items, parameters]: InnerList,
  { request, url }: { request: SignedRequest; url: string | undefined },
): string | undefined {
  const { headersDistinct, query } = request;
  const headers: Record<string, string[]> = {};
  for (const [name, values] of Object.entries(headersDistinct)) if (values) headers[name] = values;
  const isKnown = items.every(
    ([name]) =>
      typeof name === "string" && (name.startsWith("@") ? DERIVED.test(name) : Object.hasOwn(headers, name)),
  );
  const needsUrl = items.some(
    ([name]) => typeof name === "string" && name.startsWith("@") && name !== "@method",
  );
  if (!isKnown || (needsUrl && url === undefined)) return undefined;
  // The method is always POST: the receiver has already refused every other one.
  const target = (url ?? "https://unset.invalid/") + (query === undefined || query === "" ? "" : `?${query}`);
  try {
    const fields = items.map(([name, own]) => serializeItem([name, own]));
    const base = httpbis.createSignatureBase({ fields }, { method: "POST", url: target, headers });
    const lines = items.length === 0 ? [] : [httpbis.formatSignatureBase(base)];
    return [...lines, `"@signature-params": ${serializeInnerList([items, parameters])}`].join("\n");
  } catch {
    // The library throws plain errors for components that it cannot derive.
    return undefined;
  }
}

/** Whether Content-Digest (RFC 9530) holds hashes of this body: at least one known hash, and no wrong one. */
function isDigestOf({ headersDistinct, body }: SignedRequest): boolean {
  const values = headersDistinct["content-digest"];
  if (values?.length !== 1) return false;
  let known = 0;
  try {
    for (const [name, [value]] of parseDictionary(values[0] ?? "")) {
      const algorithm = Object.hasOwn(DIGESTS, name) ? DIGESTS[name as keyof typeof DIGESTS] : undefined;
      if (algorithm === undefined) continue;
      const expected = hash(algorithm, body, "buffer");
      if (!(value instanceof ArrayBuffer) || value.byteLength !== expected.length) return false;
      if (!timingSafeEqual(Buffer.from(value), expected)) return false;
      known += 1;
    }
  } catch {
    return false;
  }
  return known > 0;
}
