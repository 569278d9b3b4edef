import { createHash, createPublicKey, generateKeyPairSync } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { ConfigurationError } from "../domain/errors.ts";
import { readPrivateKeys } from "../runtime/privateKeys.ts";
import { shellWord } from "../domain/shellWord.ts";

/** A public key, by which others recognize an installation. */
export interface VerifyingKey {
  /** SHA-256 of the 32 bytes of the public key, in hexadecimal. */
  readonly keyId: string;
  /** The 32 bytes in base64. */
  readonly publicKey: string;
  readonly key: KeyObject;
}

export interface SigningKey extends VerifyingKey {
  readonly privateKey: KeyObject;
}

/** The first key signs; the others are former ones, which also sign the statement that replaces them. */
export type SigningKeys = readonly [SigningKey, ...SigningKey[]];

const FILE = "certificate-key.pem";
const OTHERS = 0o077;
/** The 32 bytes of a public key in base64. */
export const PUBLIC_KEY = /^[A-Za-z0-9+/]{43}=$/;

/** Where certificate keys come from: CERTIFICATE_KEY, or the folder in which one is made. */
export interface KeyPlace {
  readonly certificateKey: string | null;
  readonly dataDir: string;
}

/**
 * The configured keys, or those in DATA_DIR, where the first call makes one that only this account can read. Throws
 * ConfigurationError if they cannot be read or stored, or if others can read the file.
 */
export function provideSigningKeys(place: KeyPlace): SigningKeys {
  if (place.certificateKey !== null) return parseKeys(place.certificateKey, "CERTIFICATE_KEY");
  const file = path.resolve(place.dataDir, FILE);
  const stored = readKeyFile(file) ?? createKeyFile(file);
  return parseKeys(stored, file);
}

/** Adds a new key in front of those in DATA_DIR. Throws ConfigurationError like provideSigningKeys. */
export function rotateSigningKey(place: KeyPlace): SigningKeys {
  if (place.certificateKey !== null) {
    throw new ConfigurationError("The key is configured with CERTIFICATE_KEY.", {
      fix: "Put a new private key in front of it there: openssl genpkey -algorithm ed25519",
    });
  }
  const file = path.resolve(place.dataDir, FILE);
  provideSigningKeys(place);
  const keys = makePem() + (readKeyFile(file) ?? "");
  write(file, () => {
    const draft = `${file}.${process.pid}`;
    writeFileSync(draft, keys, { mode: 0o600 });
    chmodSync(draft, 0o600);
    renameSync(draft, file);
  });
  return parseKeys(keys, file);
}

/** Reads a public key from its 32 bytes in base64. Throws ConfigurationError. */
export function readPublicKey(text: string): VerifyingKey {
  if (!PUBLIC_KEY.test(text)) {
    throw new ConfigurationError("The public key is not 32 bytes in base64.", {
      fix: "Ask the owner of the mirror; `order-mirror certificate key` prints it.",
    });
  }
  const bytes = Buffer.from(text, "base64");
  const x = bytes.toString("base64url");
  return describeKey(createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" }));
}

function describeSigningKey(privateKey: KeyObject): SigningKey {
  return { ...describeKey(createPublicKey(privateKey)), privateKey };
}

function describeKey(key: KeyObject): VerifyingKey {
  const bytes = Buffer.from(String(key.export({ format: "jwk" }).x), "base64url");
  const keyId = createHash("sha256").update(bytes).digest("hex");
  return { keyId, publicKey: bytes.toString("base64"), key };
}

/** @internal */
export function parseKeys(pem: string, origin: string): SigningKeys {
  try {
    const [first, ...former] = readPrivateKeys(pem);
    return [describeSigningKey(first), ...former.map(describeSigningKey)];
  } catch (error) {
    throw new ConfigurationError(`${origin} does not hold an Ed25519 private key in PEM.`, {
      cause: error,
      fix: "Restore it from a backup; certificates of another key are not trusted.",
    });
  }
}

function makePem(): string {
  return String(generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }));
}

function readKeyFile(file: string): string | undefined {
  try {
    if (process.platform !== "win32" && (statSync(file).mode & OTHERS) !== 0) {
      throw new ConfigurationError(`Other accounts can read ${file}, which signs certificates.`, {
        fix: `Run chmod 600 ${shellWord(file)}, then order-mirror certificate rotate-key.`,
      });
    }
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    if (error instanceof ConfigurationError) throw error;
    throw new ConfigurationError(`The file ${file} cannot be read.`, { cause: error });
  }
}

function createKeyFile(file: string): string {
  write(file, () => {
    mkdirSync(path.dirname(file), { recursive: true });
    try {
      writeFileSync(file, makePem(), { mode: 0o600, flag: "wx" });
    } catch (error) {
      // Another process made it at the same moment.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  });
  return readKeyFile(file) ?? "";
}

function write(file: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    throw new ConfigurationError(`The key for certificates cannot be stored in ${file}.`, {
      cause: error,
      fix: "Set CERTIFICATE_KEY, or make DATA_DIR a folder that this account can write to.",
    });
  }
}
