import { request } from "node:http";
import { generateKeyPairSync } from "node:crypto";
import type { Scheme } from "../../../src/signature/scheme.ts";
import { makeSigner, type Signable } from "../../../src/signature/sign.ts";
import { findAlgorithm } from "../../../src/signature/algorithms.ts";
import type { CapturedRequest } from "../../../src/signature/identify.ts";

export const WEBHOOK_SECRET = `whsec_${Buffer.from("a secret of thirty-two bytes!!!!").toString("base64")}`;

/** Sends one signed event, signed now or at `signedAt` (seconds since 1970). Resolves with the status; null when no answer arrived, so that the outcome is unknown. */
export function sendEvent(
  url: string,
  event: { id: string; body: Buffer; signedAt?: number },
  secret = WEBHOOK_SECRET,
): Promise<number | null> {
  const sign = makeSigner({ secrets: [secret] });
  const nowSeconds = event.signedAt ?? Math.floor(Date.now() / 1_000);
  const headers = sign({ id: event.id, body: event.body, nowSeconds });
  return new Promise((resolve) => {
    const sending = request(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json", "content-length": event.body.length },
      timeout: 10_000,
    });
    sending.once("response", (response) => {
      response.resume();
      response.once("end", () => resolve(response.statusCode ?? null));
      response.once("error", () => resolve(null));
    });
    sending.once("error", () => resolve(null));
    sending.once("timeout", () => sending.destroy());
    sending.end(event.body);
  });
}

export const ENDPOINT_URL = "https://shop.example/webhooks/live";

const PAIR = generateKeyPairSync("ed25519");

/** A secret to sign with and the one to verify with, in the format that the scheme requires. */
export function makeSecrets({ algorithm, secretFormat: format }: Scheme, bytes: Uint8Array) {
  const same = (secret: string) => ({ signing: secret, verifying: secret });
  const base64 = Buffer.from(bytes).toString("base64");
  const { key: kind } = findAlgorithm(algorithm);
  if (kind !== "shared") {
    const seed = PAIR.privateKey.export({ format: "der", type: "pkcs8" }).subarray(-32);
    const point = PAIR.publicKey.export({ format: "der", type: "spki" }).subarray(-32);
    return { signing: `whsk_${seed.toString("base64")}`, verifying: `whpk_${point.toString("base64")}` };
  }
  if (format === "hex") return same(Buffer.from(bytes).toString("hex"));
  if (format === "base64") return same(base64);
  if (format === "whsec") return same(`whsec_${base64}`);
  return same(`secret ${base64}`);
}

/** A request with these headers, and those of every request around them. */
export function capture(headers: Record<string, string>, body: Buffer | string): CapturedRequest {
  const all = {
    host: "shop.example",
    "content-type": "application/json",
    "user-agent": "Sender/1.0",
    "content-length": String(Buffer.byteLength(body)),
    "x-request-id": "0b6f6a52-7f0a-4f52-a9a4-9d0f4b1d6a11",
    traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ...headers,
  };
  return { headersDistinct: distinct(all), body: Buffer.from(body) };
}

/** Each header once, by its name in lower case, as Node gives them. */
export function distinct(headers: Readonly<Record<string, string>>): Record<string, string[]> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value]]));
}

/** Signs a request as a sender does. */
export function captureSigned(scheme: Scheme, secret: string, signable: Signable): CapturedRequest {
  return capture(makeSigner({ scheme, secrets: [secret], url: ENDPOINT_URL })(signable), signable.body);
}
