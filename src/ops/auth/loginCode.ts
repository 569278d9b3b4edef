import { randomBytes } from "node:crypto";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { digestSecret, matchesDigest } from "../../runtime/secretDigest.ts";

const CODE_BYTES = 32;
const LIFE_MS = 3_600_000;

/** A code that logs in as operator once, within an hour: for the link that the first start prints. */
export interface LoginCode {
  readonly code: string;
  /** True for the code, the first time. */
  readonly redeem: (code: string) => boolean;
}

export function makeLoginCode(clock: Pick<Clock, "monotonicMs">): LoginCode {
  const code = randomBytes(CODE_BYTES).toString("base64url");
  const digest = digestSecret(code);
  const endsAtMs = clock.monotonicMs() + LIFE_MS;
  let isSpent = false;
  return {
    code,
    redeem(given) {
      if (isSpent || clock.monotonicMs() > endsAtMs || !matchesDigest(given, digest)) return false;
      isSpent = true;
      return true;
    },
  };
}
