import { createHmac, sign, timingSafeEqual, verify, type KeyObject } from "node:crypto";

/** Text is signed byte by byte (Latin-1), as Node passes headers. */
export type Chunk = string | Buffer;

export interface Algorithm {
  /** Kind of the key: a secret that both sides know, or one half of an Ed25519 pair. */
  readonly key: "shared" | "ed25519";
  /** Tells whether a signature can have that many bytes. A shorter one cannot: a prefix of a digest proves nothing. */
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

const joined = (chunks: readonly Chunk[]) =>
  Buffer.concat(chunks.map((chunk) => (typeof chunk === "string" ? Buffer.from(chunk, "latin1") : chunk)));

const ed25519: Algorithm = {
  key: "ed25519",
  fits: (bytes) => bytes === 64,
  makeTest: (key, signed) => {
    const message = joined(signed);
    return (signature) => verify(null, message, key, signature);
  },
  sign: (key, signed) => sign(null, joined(signed), key),
};

const ALGORITHMS = {
  "hmac-sha256": hmac("sha256", 32),
  "hmac-sha384": hmac("sha384", 48),
  "hmac-sha512": hmac("sha512", 64),
  "hmac-sha1": hmac("sha1", 20),
  ed25519,
} as const satisfies Readonly<Record<string, Algorithm>>;
export type AlgorithmName = keyof typeof ALGORITHMS;
export const ALGORITHM_NAMES = Object.keys(ALGORITHMS) as AlgorithmName[];

export const findAlgorithm = (name: AlgorithmName): Algorithm => ALGORITHMS[name];

export const ENCODINGS = ["hex", "base64", "base64url"] as const;
export type Encoding = (typeof ENCODINGS)[number];

const BASE64_KEY = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * The bytes that `text` encodes, or undefined when it is not exactly that encoding. Node's own decoder drops
 * unknown characters, so that a valid signature followed by junk would verify. Padding may be left out.
 */
export function decodeStrictly(text: string, encoding: Encoding): Buffer | undefined {
  const bytes = Buffer.from(text, encoding);
  // Encoding it again must give the same text: this also refuses the other alphabet and stray bits at the end.
  const again = bytes.toString(encoding);
  if (again === text) return bytes;
  if (encoding === "hex") return again === text.toLowerCase() ? bytes : undefined;
  const padded = again.padEnd(Math.ceil(again.length / 4) * 4, "=");
  return again.replace(/=+$/, "") === text || padded === text ? bytes : undefined;
}

/**
 * The key that base64 text encodes, as the senders' libraries read it: padding may be missing, and bits or one
 * character beyond the last byte are dropped. People truncate secrets more often than signatures, and both sides must
 * then read the same key.
 */
export function decodeBase64Key(text: string): Buffer | undefined {
  return BASE64_KEY.test(text) ? Buffer.from(text, "base64") : undefined;
}
