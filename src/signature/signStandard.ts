import type { Signable } from "./claim.ts";
import { loadScheme } from "./scheme.ts";
import { makeSigner } from "./sign.ts";

const SIGNATURE_HEADER = "webhook-signature";
const KEY_PREFIX = "whsk_";

/**
 * Signs according to Standard Webhooks with each of the secrets: `whsec_…` by HMAC (v1), `whsk_…` by ed25519 (v1a). One
 * header holds all signatures, so a receiver that knows one of the secrets accepts the message; this allows secrets to
 * be rotated. Throws ConfigurationError when a secret has neither form.
 */
export function makeStandardSigner(
  secrets: readonly string[],
): (signable: Signable) => Record<string, string> {
  const schemes = {
    hmac: loadScheme("standard-webhooks"),
    key: loadScheme("standard-webhooks-ed25519"),
  };
  const signers = secrets.map((secret) =>
    makeSigner({ scheme: secret.startsWith(KEY_PREFIX) ? schemes.key : schemes.hmac, secret }),
  );
  return (signable) => {
    const signed = signers.map((sign) => sign(signable));
    const signatures = signed.map((headers) => headers[SIGNATURE_HEADER] ?? "");
    return { ...signed[0], [SIGNATURE_HEADER]: signatures.join(" ") };
  };
}
