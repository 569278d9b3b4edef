import { generateKeyPairSync } from "node:crypto";
import type { KeyObject } from "node:crypto";
import type { CapturedRequest } from "../../../src/signature/identify/candidates.ts";
import { algorithmOf, loadScheme } from "../../../src/signature/scheme.ts";
import type { Scheme, TemplateScheme } from "../../../src/signature/scheme.ts";
import { makeSealer } from "../../../src/signature/sign.ts";
import type { Signable } from "../../../src/signature/sign.ts";

export const ENDPOINT_URL = "https://shop.example/webhooks/live";

/** A preset, or a scheme of the default form from its fields. */
export function templateScheme(preset: string | object): TemplateScheme {
  const scheme = loadScheme(typeof preset === "string" ? preset : JSON.stringify(preset));
  if (scheme.form !== "template") throw new Error(`${scheme.form} is not a template`);
  return scheme;
}

export interface SecretPair {
  readonly signing: string;
  readonly verifying: string;
}

const PAIRS = new Map<string, { privateKey: KeyObject; publicKey: KeyObject }>();

/** A pair of the kind, made once: RSA keys take half a second. */
function keyPair(kind: string) {
  const made =
    PAIRS.get(kind) ??
    (kind === "rsa"
      ? generateKeyPairSync("rsa", { modulusLength: 2_048 })
      : kind === "ed25519"
        ? generateKeyPairSync("ed25519")
        : generateKeyPairSync("ec", { namedCurve: kind }));
  PAIRS.set(kind, made);
  return made;
}

/** A secret to sign with and the one to verify with, in the format that the scheme requires. */
export function makeSecrets(scheme: Scheme, bytes: Uint8Array): SecretPair {
  const same = (secret: string) => ({ signing: secret, verifying: secret });
  const base64 = Buffer.from(bytes).toString("base64");
  const format = scheme.form === "token" ? "utf8" : scheme.secretFormat;
  const { key: kind } = algorithmOf(scheme);
  if (kind !== "shared") {
    const { privateKey, publicKey } = keyPair(kind);
    const der = {
      signing: privateKey.export({ format: "der", type: "pkcs8" }),
      verifying: publicKey.export({ format: "der", type: "spki" }),
    };
    if (format === "spki")
      return { signing: der.signing.toString("base64"), verifying: der.verifying.toString("base64") };
    const [seed, point] = [der.signing.subarray(-32), der.verifying.subarray(-32)];
    if (format === "hex" || format === "base64")
      return { signing: seed.toString(format), verifying: point.toString(format) };
    return { signing: `whsk_${seed.toString("base64")}`, verifying: `whpk_${point.toString("base64")}` };
  }
  if (format === "hex") return same(Buffer.from(bytes).toString("hex"));
  if (format === "base64") return same(base64);
  if (format === "whsec") return same(`whsec_${base64}`);
  return same(format === "utf8-nfkd" ? `sécret ﬁ ${base64}` : `secret ${base64}`);
}

/** Signs a request as a sender does, with headers of every request around it. */
export function captureSigned(
  scheme: Scheme,
  secret: string,
  { headers = {}, ...signable }: Signable & { readonly headers?: Record<string, string> },
): CapturedRequest {
  const sealed = makeSealer({ scheme, secret, url: ENDPOINT_URL })(signable);
  const all = {
    host: "shop.example",
    "content-type": "application/json",
    "user-agent": "Sender/1.0",
    "content-length": String(signable.body.length),
    "x-request-id": "0b6f6a52-7f0a-4f52-a9a4-9d0f4b1d6a11",
    ...headers,
    ...sealed.headers,
  };
  const headersDistinct = Object.fromEntries(Object.entries(all).map(([name, value]) => [name, [value]]));
  return {
    headersDistinct,
    body: signable.body,
    target: `/webhooks/live${sealed.query === "" ? "" : `?${sealed.query}`}`,
  };
}
