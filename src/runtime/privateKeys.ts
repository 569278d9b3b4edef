import { createPrivateKey } from "node:crypto";
import type { KeyObject } from "node:crypto";

const PRIVATE_KEY = /-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----/g;

/** The Ed25519 private keys of a text in PEM, at least one. Throws if it has none, or another key. */
export function readPrivateKeys(pem: string): [KeyObject, ...KeyObject[]] {
  const [first, ...others] = (pem.match(PRIVATE_KEY) ?? []).map((block) => {
    const key = createPrivateKey(block);
    if (key.asymmetricKeyType !== "ed25519") throw new TypeError("not an Ed25519 key");
    return key;
  });
  if (first === undefined) throw new TypeError("no private key");
  return [first, ...others];
}
