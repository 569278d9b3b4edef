import { createHash, timingSafeEqual } from "node:crypto";

/** SHA-256 of a secret: what is kept of it for comparison, 32 bytes whatever the secret's length. */
export function digestSecret(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

/** True when `presented` is the secret of `digest`; takes the same time whichever byte differs. */
export function matchesDigest(presented: string, digest: Buffer): boolean {
  return timingSafeEqual(digestSecret(presented), digest);
}
