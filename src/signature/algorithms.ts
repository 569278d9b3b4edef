import { createHmac, sign, timingSafeEqual, verify, type KeyObject } from "node:crypto";

/** Text is signed byte by byte (Latin-1), as Node passes headers. */
export type Chunk = string | Buffer;

export interface Algorithm {
  /** Kind of the key: a secret that both sides know, or one half of a key pair. */
  readonly key: "shared" | "ed25519" | "P-256" | "P-384" | "rsa";
  /** Whether a signature can have that many bytes. Shorter ones never do: a prefix of a digest proves nothing. */
  readonly fits: (bytes: number) => boolean;
  /** Prepares one key and text. Each check of a signature takes the same time, whatever its result. */
  readonly makeTest: (key: KeyObject, signed: readonly Chunk[]) => (signature: Buffer) => boolean;
  readonly sign: (key: KeyObject, signed: readonly Chunk[]) => Buffer;
}

function hmac(hash: string, length: number): Algorithm {
  const digest = (key: KeyObject, signed: readonly Chunk[]) => {
    const made = createHmac(hash, key);
    for (const chunk of signed) {
      if (typeof chunk === "string") made.update(chunk, "latin1");
      else made.update(chunk);
    }
    return made.digest();
  };
  const makeTest: Algorithm["makeTest"] = (key, signed) => {
    const expected = digest(key, signed);
    return (signature) => timingSafeEqual(expected, signature);
  };
  const fits = (bytes: number) => bytes === length;
  return { key: "shared", fits, makeTest, sign: digest };
}

interface PublicKey extends Pick<Algorithm, "key" | "fits"> {
  readonly hash: string | null;
  readonly padding?: number;
  readonly saltLength?: number;
  /** Bytes of an ECDSA signature as two plain numbers; any other length is DER. */
  readonly plainBytes?: number;
}

function publicKey({ key, fits, hash, plainBytes, ...padding }: PublicKey): Algorithm {
  const joined = (chunks: readonly Chunk[]) =>
    Buffer.concat(chunks.map((chunk) => (typeof chunk === "string" ? Buffer.from(chunk, "latin1") : chunk)));
  const makeTest: Algorithm["makeTest"] = (keyObject, signed) => {
    const message = joined(signed);
    return (signature) => {
      const dsaEncoding = signature.length === plainBytes ? "ieee-p1363" : "der";
      return verify(hash, message, { key: keyObject, dsaEncoding, ...padding }, signature);
    };
  };
  const makeSignature: Algorithm["sign"] = (keyObject, signed) =>
    sign(hash, joined(signed), { key: keyObject, ...padding });
  return { key, fits, makeTest, sign: makeSignature };
}

/** DER adds up to 8 bytes to the two numbers. Small numbers take less; in practice they never save more than 8 bytes. */
const DER_SLACK = 8;
const ecdsa = (key: "P-256" | "P-384", plainBytes: number, hash: string) =>
  publicKey({ key, fits: (bytes) => Math.abs(bytes - plainBytes) <= DER_SLACK, hash, plainBytes });

/** From 2,048 to 4,096 bits; longer keys make each forged request too expensive. */
const RSA = { key: "rsa", fits: (bytes: number) => bytes >= 256 && bytes <= 512 } as const;
const PKCS1 = { ...RSA, padding: 1 };
const PSS = { ...RSA, padding: 6 };

const ALGORITHMS = {
  "hmac-sha256": hmac("sha256", 32),
  "hmac-sha384": hmac("sha384", 48),
  "hmac-sha512": hmac("sha512", 64),
  "hmac-sha1": hmac("sha1", 20),
  ed25519: publicKey({ key: "ed25519", fits: (bytes) => bytes === 64, hash: null }),
  "ecdsa-p256-sha256": ecdsa("P-256", 64, "sha256"),
  "ecdsa-p384-sha384": ecdsa("P-384", 96, "sha384"),
  "rsa-sha256": publicKey({ ...PKCS1, hash: "sha256" }),
  "rsa-sha512": publicKey({ ...PKCS1, hash: "sha512" }),
  "rsa-pss-sha256": publicKey({ ...PSS, hash: "sha256", saltLength: 32 }),
  "rsa-pss-sha512": publicKey({ ...PSS, hash: "sha512", saltLength: 64 }),
} as const satisfies Readonly<Record<string, Algorithm>>;
export type AlgorithmName = keyof typeof ALGORITHMS;
export const ALGORITHM_NAMES = Object.keys(ALGORITHMS) as AlgorithmName[];

export function findAlgorithm(name: AlgorithmName): Algorithm {
  return ALGORITHMS[name];
}

export const ENCODINGS = ["hex", "base64", "base64url"] as const;
export type Encoding = (typeof ENCODINGS)[number];

const HEX = /^[0-9a-fA-F]*$/;
const BASE64_KEY = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * The bytes that `text` encodes, or undefined when it is not exactly that encoding. Node's own decoder drops
 * unknown characters, so that a valid signature followed by junk would verify. Padding may be left out.
 */
export function decodeStrictly(text: string, encoding: Encoding): Buffer | undefined {
  if (encoding === "hex") {
    return text.length % 2 === 0 && HEX.test(text) ? Buffer.from(text, "hex") : undefined;
  }
  const bytes = Buffer.from(text, encoding);
  // Encoding it again must give the same text: this also refuses the other alphabet and stray bits at the end.
  const again = bytes.toString(encoding);
  if (again === text) return bytes;
  const padded = again.padEnd(Math.ceil(again.length / 4) * 4, "=");
  return again.replace(/=+$/, "") === text || padded === text ? bytes : undefined;
}

/**
 * The key that base64 text encodes, as the senders' libraries read it: padding may be missing, and bits or one character
 * beyond the last byte are dropped. People truncate secrets more often than signatures, and both sides must then read
 * the same key.
 */
export function decodeBase64Key(text: string): Buffer | undefined {
  return BASE64_KEY.test(text) ? Buffer.from(text, "base64") : undefined;
}
