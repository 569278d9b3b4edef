import { createPrivateKey, createPublicKey, createSecretKey, type KeyObject } from "node:crypto";
import { decodeBase64Key, decodeStrictly, findAlgorithm } from "./algorithms.ts";
import type { Scheme, SecretFormat } from "./scheme.ts";

/** Shorter secrets are accepted, because senders issue them, but they can be guessed: 16 bytes are 128 bits. */
const SECRET_BYTES_ADVISED = 16;
/** A secret that only repeats this many bytes or fewer is a placeholder, whatever its length. */
const PATTERN_BYTES_MAX = 4;
const ED25519_KEY_BYTES = 32;
/** A seed in PKCS #8, and a point in SubjectPublicKeyInfo: these bytes, then the 32 bytes of the key (RFC 8410). */
const ED25519_PRIVATE_DER = Buffer.from("302e020100300506032b657004220420", "hex");
const ED25519_PUBLIC_DER = Buffer.from("302a300506032b6570032100", "hex");

/**
 * Turns secrets into keys, once, for checking signatures. `problems` says why secrets cannot be used, and is empty when
 * they can; neither it nor `warnings` holds a secret. `keys` has those without a problem, in their sequence.
 */
export function readSecrets(secrets: readonly string[], scheme: Scheme) {
  const keys: KeyObject[] = [];
  const problems: string[] = [];
  const warnings: string[] = [];
  const seen = new Map<string, number>();
  if (secrets.length === 0) problems.push("there is no secret; without one nothing can be verified");
  for (const [index, secret] of secrets.entries()) {
    const name = `secret ${index + 1}`;
    const read = readKey(secret, scheme);
    if (read.problem !== undefined) {
      problems.push(`${name} ${read.problem}`);
      continue;
    }
    const print = read.bytes.toString("hex");
    const twin = seen.get(print);
    if (twin !== undefined) problems.push(`${name} is the same as secret ${twin}`);
    seen.set(print, index + 1);
    if (read.key.type === "secret" && read.bytes.length < SECRET_BYTES_ADVISED) {
      warnings.push(
        `${name} has only ${read.bytes.length} bytes; at least ${SECRET_BYTES_ADVISED} are advised`,
      );
    }
    keys.push(read.key);
  }
  return { keys, problems, warnings };
}

/** The key to sign with, for a key pair the private half; undefined when the secret cannot be used. */
export function readSigningKey(secret: string, scheme: Scheme): KeyObject | undefined {
  const { key } = findAlgorithm(scheme.algorithm);
  if (key === "shared") return readSecrets([secret], scheme).keys[0];
  const bytes = decodeSecret(secret, scheme.secretFormat, "whsk_");
  // 32 bytes are the seed; 64 are the seed and the public key.
  if (bytes?.length !== ED25519_KEY_BYTES && bytes?.length !== 2 * ED25519_KEY_BYTES) return undefined;
  const der = Buffer.concat([ED25519_PRIVATE_DER, bytes.subarray(0, ED25519_KEY_BYTES)]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

/** Tells whether a secret is written in the scheme's format, such as base64. */
export function isReadable(secret: string, { secretFormat }: Scheme): boolean {
  return decodeSecret(secret, secretFormat, "whpk_") !== undefined;
}

function readKey(secret: string, scheme: Scheme) {
  const { key: kind } = findAlgorithm(scheme.algorithm);
  const { secretFormat: format } = scheme;
  const bytes = decodeSecret(secret, format, "whpk_");
  if (!bytes)
    return { problem: `is not ${format.startsWith("wh") ? `base64 after an optional ${format}_` : format}` };
  // Node accepts an empty key, and anyone can sign with that.
  if (bytes.length === 0 || (format === "utf8" && secret.trim() === "")) return { problem: "is empty" };
  if (kind === "shared") {
    const pattern = findPattern(bytes);
    if (pattern !== undefined)
      return { problem: `repeats the same ${pattern} of ${bytes.length} bytes; anybody can guess that` };
    return { key: createSecretKey(bytes), bytes };
  }
  if (bytes.length !== ED25519_KEY_BYTES)
    return { problem: `has ${bytes.length} bytes; an ed25519 public key has ${ED25519_KEY_BYTES}` };
  const der = Buffer.concat([ED25519_PUBLIC_DER, bytes]);
  return { key: createPublicKey({ key: der, format: "der", type: "spki" }), bytes };
}

/** Length of the pattern, if the bytes only repeat one. */
function findPattern(bytes: Buffer): number | undefined {
  for (let length = 1; length <= PATTERN_BYTES_MAX && length * 2 <= bytes.length; length += 1) {
    if (bytes.subarray(length).equals(bytes.subarray(0, -length))) return length;
  }
  return undefined;
}

function decodeSecret(secret: string, format: SecretFormat, keyPrefix: string): Buffer | undefined {
  if (format === "utf8") return Buffer.from(secret);
  if (format === "hex") return decodeStrictly(secret, format);
  if (format === "base64") return decodeBase64Key(secret);
  if (format === "whsec") return decodeBase64Key(withoutPrefix(secret, "whsec_"));
  return format === "whpk" ? decodeStrictly(withoutPrefix(secret, keyPrefix), "base64") : undefined;
}

function withoutPrefix(text: string, prefix: string): string {
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}
