import { ConfigurationError } from "../domain/errors.ts";
import type { Seal, Signable } from "./claim.ts";
import { algorithmOf } from "./scheme.ts";
import type { Scheme } from "./scheme.ts";
import { readSigningKey } from "./secrets.ts";
import { formOf } from "./verifier.ts";

export interface SignerOptions {
  readonly scheme: Scheme;
  /** For a key pair, the private key: `whsk_…`, PEM, or base64 of its PKCS #8. */
  readonly secret: string;
  /** Where the request goes; only for schemes that sign the address. */
  readonly url?: string;
}

/**
 * Makes the counterpart of the verifier: the headers that a sender adds to a request.
 * Throws ConfigurationError when the secret does not fit the scheme, or the signature does not go into a header.
 */
export function makeSigner(options: SignerOptions): (signable: Signable) => Record<string, string> {
  const { scheme } = options;
  const placed = scheme.form === "template" ? [scheme, scheme.timestamp ?? {}] : [scheme];
  if (placed.some((place) => "query" in place && place.query !== null))
    throw new ConfigurationError(
      "The scheme puts its signature into the address; only headers can be signed here.",
    );
  const sign = makeSealer(options);
  return (signable) => sign(signable).headers;
}

/** The same for schemes that put something into the address, too. @internal */
export function makeSealer({ scheme, secret, url }: SignerOptions): (signable: Signable) => Seal {
  const key = readSigningKey(secret, scheme);
  if (!key)
    throw new ConfigurationError(
      "The secret to sign with is empty, repeats a short pattern, or does not fit the scheme.",
    );
  const { write } = formOf(scheme, { url });
  const algorithm = algorithmOf(scheme);
  return (signable) => {
    const draft = write(signable);
    return draft.seal(algorithm.sign(key, draft.signed, scheme.form !== "template"));
  };
}
