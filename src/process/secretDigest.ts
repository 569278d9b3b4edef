import { hash, timingSafeEqual } from "node:crypto";

/** SHA-256 of a secret: what is kept of it for comparison, 32 bytes whatever the secret's length. */
export function digestSecret(secret: string): Buffer {
  return hash("sha256", secret, "buffer");
}

/** True when `presented` is the secret of `digest`; takes the same time whichever byte differs. */
export function matchesDigest(presented: string, digest: Buffer): boolean {
  return timingSafeEqual(digestSecret(presented), digest);
}
