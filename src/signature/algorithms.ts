import { createHmac, hash as hashOf, sign, timingSafeEqual, verify } from "node:crypto";
import type { KeyObject } from "node:crypto";
import type { Chunk } from "./claim.ts";

export interface Algorithm {
  /** Kind of the key: a secret that both sides know, or one half of a key pair. */
  readonly key: "shared" | "ed25519" | "P-256" | "P-384" | "rsa";
  /** Whether a signature can have that many bytes. Shorter ones never do: a prefix of a digest proves nothing. */
  readonly fits: (bytes: number) => boolean;
  /** Prepares one key and text. Each check of a signature takes the same time, whatever its result. */
  readonly makeTest: (key: KeyObject, signed: readonly Chunk[]) => (signature: Buffer) => boolean;
  readonly sign: (key: KeyObject, signed: readonly Chunk[]) => Buffer;
  /** Its name in the head of a JSON Web Token, and in an HTTP message signature; null: not used there. */
  readonly jwtName: string | null;
  readonly messageName: string | null;
}

type Names = [jwtName: string | null, messageName: string | null];

function hmac(hash: string, length: number, ...[jwtName, messageName]: Names): Algorithm {
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
  return { key: "shared", fits, makeTest, sign: digest, jwtName, messageName };
}

interface PublicKey extends Pick<Algorithm, "key" | "fits"> {
  readonly hash: string | null;
  readonly padding?: number;
  readonly saltLength?: number;
  /** Bytes of an ECDSA signature as two plain numbers, as in tokens and HTTP messages; any other length is DER. */
  readonly plainBytes?: number;
}

function publicKey(
  { key, fits, hash, plainBytes, ...padding }: PublicKey,
  ...[jwtName, messageName]: Names
): Algorithm {
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
  return { key, fits, makeTest, sign: makeSignature, jwtName, messageName };
}

/** DER adds up to 8 bytes to the two numbers. Small numbers take less; in practice they never save more than 8 bytes. */
const DER_SLACK = 8;
const ecdsa = (key: "P-256" | "P-384", plainBytes: number, hash: string, jwtName: string, name: string) =>
  publicKey(
    { key, fits: (bytes) => Math.abs(bytes - plainBytes) <= DER_SLACK, hash, plainBytes },
    jwtName,
    name,
  );

/** From 2,048 to 4,096 bits; longer keys make each forged request too expensive. */
const RSA = { key: "rsa", fits: (bytes: number) => bytes >= 256 && bytes <= 512 } as const;
const PKCS1 = { ...RSA, padding: 1 };
const PSS = { ...RSA, padding: 6 };

const ALGORITHMS = {
  "hmac-sha256": hmac("sha256", 32, "HS256", "hmac-sha256"),
  "hmac-sha384": hmac("sha384", 48, "HS384", null),
  "hmac-sha512": hmac("sha512", 64, "HS512", null),
  "hmac-sha1": hmac("sha1", 20, null, null),
  ed25519: publicKey({ key: "ed25519", fits: (bytes) => bytes === 64, hash: null }, "EdDSA", "ed25519"),
  "ecdsa-p256-sha256": ecdsa("P-256", 64, "sha256", "ES256", "ecdsa-p256-sha256"),
  "ecdsa-p384-sha384": ecdsa("P-384", 96, "sha384", "ES384", "ecdsa-p384-sha384"),
  "rsa-sha256": publicKey({ ...PKCS1, hash: "sha256" }, "RS256", "rsa-v1_5-sha256"),
  "rsa-sha512": publicKey({ ...PKCS1, hash: "sha512" }, "RS512", null),
  "rsa-pss-sha256": publicKey({ ...PSS, hash: "sha256", saltLength: 32 }, "PS256", null),
  "rsa-pss-sha512": publicKey({ ...PSS, hash: "sha512", saltLength: 64 }, "PS512", "rsa-pss-sha512"),
} as const satisfies Readonly<Record<string, Algorithm>>;
export type AlgorithmName = keyof typeof ALGORITHMS;
export const ALGORITHM_NAMES = Object.keys(ALGORITHMS) as AlgorithmName[];

/** No signature at all: the request carries the secret itself. Lengths may differ, so digests are compared. */
const TOKEN: Algorithm = {
  ...ALGORITHMS["hmac-sha256"],
  fits: (bytes) => bytes > 0,
  makeTest: (key) => {
    const expected = hashOf("sha256", key.export(), "buffer");
    return (token) => timingSafeEqual(expected, hashOf("sha256", token, "buffer"));
  },
};

export function findAlgorithm(name: AlgorithmName | "token"): Algorithm {
  return name === "token" ? TOKEN : ALGORITHMS[name];
}
