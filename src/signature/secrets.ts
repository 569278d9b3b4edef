import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  type KeyObject,
  type PrivateKeyInput,
  type PublicKeyInput,
} from "node:crypto";
import { decodeBase64Key, decodeStrictly, findAlgorithm, type Algorithm } from "./algorithms.ts";
import type { Scheme, SecretFormat } from "./scheme.ts";

/** Shorter secrets are accepted, because senders issue them, but they can be guessed: 16 bytes are 128 bits. */
const SECRET_BYTES_ADVISED = 16;
/** A secret that only repeats this many bytes or fewer is a placeholder, whatever its length. */
const PATTERN_BYTES_MAX = 4;
const ED25519_KEY_BYTES = 32;
/** A seed in PKCS #8, and a point in SubjectPublicKeyInfo: these bytes, then the 32 bytes of the key (RFC 8410). */
const ED25519_PRIVATE_DER = Buffer.from("302e020100300506032b657004220420", "hex");
const ED25519_PUBLIC_DER = Buffer.from("302a300506032b6570032100", "hex");
const CURVES: Readonly<Record<string, string>> = { prime256v1: "P-256", secp384r1: "P-384" };
const RSA_BITS_MIN = 2_048;
const RSA_BITS_MAX = 4_096;

export interface ReadSecrets {
  /** In the sequence of the secrets; those with a problem are left out. */
  readonly keys: readonly KeyObject[];
  /** Why they cannot be used; empty when they can. Never holds a secret. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** Turns secrets into keys, once, for checking signatures. */
export function readSecrets(secrets: readonly string[], scheme: Scheme): ReadSecrets {
  const keys: KeyObject[] = [];
  const problems: string[] = [];
  const warnings: string[] = [];
  const seen = new Map<string, number>();
  if (secrets.length === 0) problems.push("there is no secret; without one nothing can be verified");
  for (const [index, secret] of secrets.entries()) {
    const name = `secret ${index + 1}`;
    const read = readKey(secret, scheme);
    if ("problem" in read) {
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
  if (scheme.secretFormat === "spki") return importKey(secret, key, "private");
  const bytes = decodeSecret(secret, scheme.secretFormat, "whsk_");
  // 32 bytes are the seed; 64 are the seed and the public key.
  if (bytes?.length !== ED25519_KEY_BYTES && bytes?.length !== 2 * ED25519_KEY_BYTES) return undefined;
  const der = Buffer.concat([ED25519_PRIVATE_DER, bytes.subarray(0, ED25519_KEY_BYTES)]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

type ReadKey = { readonly key: KeyObject; readonly bytes: Buffer } | { readonly problem: string };

function readKey(secret: string, scheme: Scheme): ReadKey {
  const { key: kind } = findAlgorithm(scheme.algorithm);
  const { secretFormat: format } = scheme;
  if (format === "spki") {
    const key = importKey(secret, kind, "public");
    if (!key) return { problem: `is no public key of the kind ${kind}, as PEM or as base64 of its DER` };
    return { key, bytes: key.export({ format: "der", type: "spki" }) };
  }
  const bytes = decodeSecret(secret, format, "whpk_");
  if (!bytes) return { problem: `is not ${DESCRIPTIONS[format] ?? format}` };
  // Node accepts an empty key, and anyone can sign with that.
  const isText = format === "utf8" || format === "utf8-nfkd";
  if (bytes.length === 0 || (isText && bytes.toString().trim() === "")) return { problem: "is empty" };
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
  if (format === "utf8-nfkd") return Buffer.from(secret.normalize("NFKD"));
  if (format === "hex") return decodeStrictly(secret, format);
  if (format === "base64") return decodeBase64Key(secret);
  if (format === "whsec") return decodeBase64Key(withoutPrefix(secret, "whsec_"));
  return format === "whpk" ? decodeStrictly(withoutPrefix(secret, keyPrefix), "base64") : undefined;
}

const DESCRIPTIONS: Partial<Record<SecretFormat, string>> = {
  whsec: "base64 after an optional whsec_",
  whpk: "base64 after an optional whpk_",
};
const IMPORTS = {
  public: { create: createPublicKey, type: "spki", pem: "-----BEGIN PUBLIC KEY-----" },
  private: { create: createPrivateKey, type: "pkcs8", pem: "-----BEGIN PRIVATE KEY-----" },
} as const;

/** A key as PEM, possibly with line breaks written as \n, or as base64 of its DER. Undefined for a key of another kind. */
function importKey(
  secret: string,
  kind: Algorithm["key"],
  half: keyof typeof IMPORTS,
): KeyObject | undefined {
  const { create, type, pem } = IMPORTS[half];
  const text = secret.replaceAll(String.raw`\n`, "\n").trim();
  // Node would derive the public key from a private one, which must not be configured here.
  const base64 = text.startsWith(pem) ? text.replaceAll(/-----[A-Z ]+-----|\s/g, "") : text;
  const der = decodeStrictly(base64, "base64");
  if (!der) return undefined;
  try {
    const key = create({ key: der, format: "der", type } as PrivateKeyInput & PublicKeyInput);
    return kindOf(key) === kind ? key : undefined;
  } catch {
    return undefined;
  }
}

function kindOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string | undefined {
  if (asymmetricKeyType === "ed25519") return "ed25519";
  if (asymmetricKeyType === "ec") return CURVES[asymmetricKeyDetails?.namedCurve ?? ""];
  const bits = asymmetricKeyDetails?.modulusLength ?? 0;
  return asymmetricKeyType === "rsa" && bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX ? "rsa" : undefined;
}

function withoutPrefix(text: string, prefix: string): string {
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}
