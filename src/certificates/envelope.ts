import { createHash, sign, verify } from "node:crypto";
import { z } from "zod";
import { tryParseJson } from "../domain/parseJson.ts";
import type { SigningKey, VerifyingKey } from "./signingKey.ts";

/** Of in-toto statements in DSSE envelopes. */
const PAYLOAD_TYPE = "application/vnd.in-toto+json";

const envelopeSchema = z.strictObject({
  payloadType: z.literal(PAYLOAD_TYPE),
  payload: z.string(),
  signatures: z.array(z.strictObject({ keyid: z.string(), sig: z.string() })).min(1),
});

export interface Opened {
  readonly payload: Buffer;
  /** SHA-256 of the payload, in hexadecimal: what the next statement names. */
  readonly digest: string;
  /** Whether `key` has signed the payload. */
  readonly isSignedBy: (key: VerifyingKey) => boolean;
}

export function digestPayload(payload: Buffer): string {
  return createHash("sha256").update(payload).digest("hex");
}

/** A DSSE envelope: one line of JSON, signed by each key. */
export function sealEnvelope(payload: Buffer, keys: readonly SigningKey[]): string {
  const signatures = keys.map(({ keyId, privateKey }) => ({
    keyid: keyId,
    sig: sign(null, encodeSigned(payload), privateKey).toString("base64"),
  }));
  return JSON.stringify({ payloadType: PAYLOAD_TYPE, payload: payload.toString("base64"), signatures });
}

/**
 * Undefined if `text` is not an envelope exactly as sealEnvelope writes it: another text with the same meaning is
 * refused, so that a single changed byte never goes unnoticed. The signatures are not yet verified.
 */
export function openEnvelope(text: string): Opened | undefined {
  const envelope = envelopeSchema.safeParse(tryParseJson(text)).data;
  if (envelope === undefined || JSON.stringify(envelope) !== text) return undefined;
  const { payload: encoded, signatures } = envelope;
  const isCanonical = (base64: string) => Buffer.from(base64, "base64").toString("base64") === base64;
  if (![encoded, ...signatures.map(({ sig }) => sig)].every(isCanonical)) return undefined;
  const payload = Buffer.from(encoded, "base64");
  const signed = encodeSigned(payload);
  return {
    payload,
    digest: digestPayload(payload),
    isSignedBy: ({ keyId, key }) =>
      signatures.some(
        ({ keyid, sig }) => keyid === keyId && verify(null, signed, key, Buffer.from(sig, "base64")),
      ),
  };
}

/** DSSE's pre-authentication encoding: what is signed. */
function encodeSigned(payload: Buffer): Buffer {
  const head = `DSSEv1 ${Buffer.byteLength(PAYLOAD_TYPE)} ${PAYLOAD_TYPE} ${payload.length} `;
  return Buffer.concat([Buffer.from(head), payload]);
}
