import { generateKeyPairSync } from "node:crypto";
import { parseKeys } from "../../../src/certificates/signingKey.ts";
import type { SigningKeys } from "../../../src/certificates/signingKey.ts";

/** A new private key in PEM. */
export function makeKeyPem(): string {
  return String(generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }));
}

/** A new key for certificates, in front of those of `former`. */
export function makeKeys(former: readonly SigningKeys[number][] = []): SigningKeys {
  const [key] = parseKeys(makeKeyPem(), "a test");
  return [key, ...former];
}
