import { createPrivateKey, createPublicKey, createSecretKey } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { decodeStrictly } from "./encoding.ts";
import type { Scheme } from "./scheme.ts";

type SecretFormat = Scheme["secretFormat"];

/** Shorter secrets are accepted, as senders hand them out, but can be guessed: 16 bytes are 128 bits. */
const SECRET_BYTES_ADVISED = 16;
const ED25519_KEY_BYTES = 32;
/** A seed in PKCS #8 (RFC 8410, section 7) is these bytes and the seed. */
const ED25519_PRIVATE_DER = Buffer.from("302e020100300506032b657004220420", "hex");

export interface ReadSecrets {
  /** In the order of the secrets; those with a problem are left out. */
  readonly keys: readonly KeyObject[];
  /** Why they cannot be used; empty when they can. Never holds a secret. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** Turns secrets into keys, once, for checking signatures. */
export function readSecrets(secrets: readonly string[], format: SecretFormat): ReadSecrets {
  const keys: KeyObject[] = [];
  const problems: string[] = [];
  const warnings: string[] = [];
  const seen = new Map<string, number>();
  if (secrets.length === 0) problems.push("there is no secret; without one nothing can be verified");
  for (const [index, secret] of secrets.entries()) {
    const name = `secret ${index + 1}`;
    const bytes = decodeSecret(secret, format);
    const problem = findProblem(bytes, format);
    if (!bytes || problem !== undefined) {
      problems.push(`${name} ${problem ?? ""}`);
      continue;
    }
    const twin = seen.get(bytes.toString("hex"));
    if (twin !== undefined) problems.push(`${name} is the same as secret ${twin}`);
    seen.set(bytes.toString("hex"), index + 1);
    if (bytes.length < SECRET_BYTES_ADVISED) {
      warnings.push(`${name} has only ${bytes.length} bytes; at least ${SECRET_BYTES_ADVISED} are advised`);
    }
    keys.push(format === "whpk" ? importPublicKey(bytes) : createSecretKey(bytes));
  }
  return { keys, problems, warnings };
}

/** The key to sign with, or undefined when the secret cannot be used: for ed25519 the private key, `whsk_…`. */
export function readSigningKey(secret: string, format: SecretFormat): KeyObject | undefined {
  if (format !== "whpk") return readSecrets([secret], format).keys[0];
  const bytes = decodeStrictly(withoutPrefix(secret, "whsk_"), "base64");
  // 32 bytes are the seed; 64 are the seed and the public key.
  if (bytes?.length !== ED25519_KEY_BYTES && bytes?.length !== 2 * ED25519_KEY_BYTES) return undefined;
  const der = Buffer.concat([ED25519_PRIVATE_DER, bytes.subarray(0, ED25519_KEY_BYTES)]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

function decodeSecret(secret: string, format: SecretFormat): Buffer | undefined {
  switch (format) {
    case "utf8":
      return Buffer.from(secret, "utf8");
    case "hex":
    case "base64":
      return decodeStrictly(secret, format);
    case "whsec":
      return decodeStrictly(withoutPrefix(secret, "whsec_"), "base64");
    case "whpk":
      return decodeStrictly(withoutPrefix(secret, "whpk_"), "base64");
    default: {
      const never: never = format;
      return never;
    }
  }
}

function findProblem(bytes: Buffer | undefined, format: SecretFormat): string | undefined {
  if (!bytes) return `is not ${describeFormat(format)}`;
  // Node signs with an empty key without complaint, and anybody can do the same.
  if (bytes.length === 0 || (format === "utf8" && bytes.toString().trim() === "")) return "is empty";
  if (format === "whpk" && bytes.length !== ED25519_KEY_BYTES) {
    return `has ${bytes.length} bytes; an ed25519 public key has ${ED25519_KEY_BYTES}`;
  }
  return undefined;
}

function describeFormat(format: SecretFormat): string {
  if (format === "whsec") return "base64 after an optional whsec_";
  if (format === "whpk") return "base64 after an optional whpk_";
  return format;
}

function importPublicKey(bytes: Buffer): KeyObject {
  const jwk = { kty: "OKP", crv: "Ed25519", x: bytes.toString("base64url") };
  return createPublicKey({ key: jwk, format: "jwk" });
}

function withoutPrefix(text: string, prefix: string): string {
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}
