import { createHmac, hash as hashOf, sign, timingSafeEqual, verify } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { joinChunks } from "./claim.ts";
import type { Chunk } from "./claim.ts";

export const ALGORITHM_NAMES = [
  "hmac-sha256",
  "hmac-sha384",
  "hmac-sha512",
  "hmac-sha1",
  "ed25519",
  "ecdsa-p256-sha256",
  "ecdsa-p384-sha384",
  "rsa-sha256",
  "rsa-sha512",
  "rsa-pss-sha256",
  "rsa-pss-sha512",
] as const;
export type AlgorithmName = (typeof ALGORITHM_NAMES)[number];

export interface Algorithm {
  /** Kind of the key: a secret that both sides know, or one half of a key pair. */
  readonly key: "shared" | "ed25519" | "P-256" | "P-384" | "rsa";
  /** Whether a signature can have that many bytes. Shorter ones never do: a prefix of a digest proves nothing. */
  readonly fits: (bytes: number) => boolean;
  /** Prepares one key and text. Each check of a signature takes the same time, whatever its result. */
  readonly makeTest: (key: KeyObject, signed: readonly Chunk[]) => (signature: Buffer) => boolean;
  /** ECDSA signatures are DER, or two plain numbers where `plain` is true (tokens and HTTP messages). */
  readonly sign: (key: KeyObject, signed: readonly Chunk[], plain?: boolean) => Buffer;
  /** Its name in the head of a JSON Web Token, and in an HTTP message signature; null: not used there. */
  readonly jwtName: string | null;
  readonly messageName: string | null;
}

function hmac(hash: string, length: number, jwtName: string | null, messageName: string | null): Algorithm {
  const digest = (key: KeyObject, signed: readonly Chunk[]) => {
    const made = createHmac(hash, key);
    for (const chunk of signed) {
      if (typeof chunk === "string") made.update(chunk, "latin1");
      else made.update(chunk);
    }
    return made.digest();
  };
  return {
    key: "shared",
    fits: (bytes) => bytes === length,
    makeTest: (key, signed) => {
      const expected = digest(key, signed);
      return (signature) => timingSafeEqual(expected, signature);
    },
    sign: digest,
    jwtName,
    messageName,
  };
}

interface PublicKeyOptions {
  readonly hash: string | null;
  readonly padding?: number;
  readonly saltLength?: number;
  /** Bytes of an ECDSA signature as two plain numbers; any other length is DER. */
  readonly plainBytes?: number;
}

function publicKey(
  key: Algorithm["key"],
  fits: Algorithm["fits"],
  names: Pick<Algorithm, "jwtName" | "messageName">,
  { hash, plainBytes, ...padding }: PublicKeyOptions,
): Algorithm {
  return {
    key,
    fits,
    makeTest: (keyObject, signed) => {
      const message = joinChunks(signed);
      return (signature) => {
        const dsaEncoding = signature.length === plainBytes ? ("ieee-p1363" as const) : ("der" as const);
        return verify(hash, message, { key: keyObject, dsaEncoding, ...padding }, signature);
      };
    },
    sign: (keyObject, signed, plain = false) =>
      sign(hash, joinChunks(signed), {
        key: keyObject,
        dsaEncoding: plain ? "ieee-p1363" : "der",
        ...padding,
      }),
    ...names,
  };
}

/** DER adds up to 8 bytes to the two numbers. Small numbers take less; in practice they never save more than 8 bytes. */
const DER_SLACK = 8;
const ecdsa = (key: "P-256" | "P-384", plainBytes: number, hash: string, names: PublicKeyNames) =>
  publicKey(key, (bytes) => Math.abs(bytes - plainBytes) <= DER_SLACK, names, {
    hash,
    plainBytes,
  });

type PublicKeyNames = Pick<Algorithm, "jwtName" | "messageName">;

/** From 2,048 to 4,096 bits; longer keys make each forged request too expensive. */
const isRsaLength = (bytes: number) => bytes >= 256 && bytes <= 512;
const RSA_PKCS1 = 1;
const RSA_PSS = 6;
const rsa = (hash: string, names: PublicKeyNames, pssSaltBytes?: number) =>
  publicKey("rsa", isRsaLength, names, {
    hash,
    ...(pssSaltBytes === undefined ? { padding: RSA_PKCS1 } : { padding: RSA_PSS, saltLength: pssSaltBytes }),
  });

const ALGORITHMS: Readonly<Record<AlgorithmName, Algorithm>> = {
  "hmac-sha256": hmac("sha256", 32, "HS256", "hmac-sha256"),
  "hmac-sha384": hmac("sha384", 48, "HS384", null),
  "hmac-sha512": hmac("sha512", 64, "HS512", null),
  "hmac-sha1": hmac("sha1", 20, null, null),
  ed25519: publicKey(
    "ed25519",
    (bytes) => bytes === 64,
    { jwtName: "EdDSA", messageName: "ed25519" },
    { hash: null },
  ),
  "ecdsa-p256-sha256": ecdsa("P-256", 64, "sha256", { jwtName: "ES256", messageName: "ecdsa-p256-sha256" }),
  "ecdsa-p384-sha384": ecdsa("P-384", 96, "sha384", { jwtName: "ES384", messageName: "ecdsa-p384-sha384" }),
  "rsa-sha256": rsa("sha256", { jwtName: "RS256", messageName: "rsa-v1_5-sha256" }),
  "rsa-sha512": rsa("sha512", { jwtName: "RS512", messageName: null }),
  "rsa-pss-sha256": rsa("sha256", { jwtName: "PS256", messageName: null }, 32),
  "rsa-pss-sha512": rsa("sha512", { jwtName: "PS512", messageName: "rsa-pss-sha512" }, 64),
};

/** No signature at all: the request carries the secret itself. Lengths may differ, so digests are compared. */
const TOKEN: Algorithm = {
  key: "shared",
  fits: (bytes) => bytes > 0,
  makeTest: (key) => {
    const expected = hashOf("sha256", key.export(), "buffer");
    return (token) => timingSafeEqual(expected, hashOf("sha256", token, "buffer"));
  },
  sign: (key) => key.export(),
  jwtName: null,
  messageName: null,
};

export function findAlgorithm(name: AlgorithmName | "token"): Algorithm {
  return name === "token" ? TOKEN : ALGORITHMS[name];
}
