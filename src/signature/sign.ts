import { createHmac, sign as signEd25519 } from "node:crypto";
import { ConfigurationError } from "../domain/errors.ts";
import type { Scheme } from "./scheme.ts";
import { readSigningKey } from "./secrets.ts";
import { compileFrame, parseTemplate } from "./template.ts";
import { formatTimestamp } from "./timestamp.ts";

export interface Signable {
  /** The event's id; only used by schemes that sign one. */
  readonly id: string;
  readonly body: Buffer;
  /** Seconds since 1970. */
  readonly nowSeconds: number;
}

export interface SignerOptions {
  readonly scheme: Scheme;
  /** For ed25519 the private key, `whsk_…`. */
  readonly secret: string;
  /** Where the request goes; only for schemes that sign {url}. */
  readonly url?: string;
}

/**
 * Makes the counterpart of the verifier: the headers that a sender adds to a request.
 * Throws ConfigurationError when the secret does not fit the scheme.
 */
export function makeSigner({
  scheme,
  secret,
  url = "",
}: SignerOptions): (signable: Signable) => Record<string, string> {
  const { algorithm, encoding, prefix, separator, timestamp, idHeader } = scheme;
  const key = readSigningKey(secret, scheme.secretFormat);
  if (!key)
    throw new ConfigurationError(
      `The secret to sign with is empty or not of the format ${scheme.secretFormat}.`,
    );
  const frame = compileFrame(parseTemplate(scheme.signed).parts);
  const hash = algorithm.replace("hmac-", "");

  return ({ id, body, nowSeconds }) => {
    const time = timestamp === null ? "" : formatTimestamp(nowSeconds, timestamp.unit);
    const values = { id, timestamp: time, url };
    const signed = Buffer.concat([
      Buffer.from(frame.before(values), "latin1"),
      body,
      Buffer.from(frame.after(values), "latin1"),
    ]);
    const bytes =
      algorithm === "ed25519"
        ? signEd25519(null, signed, key)
        : createHmac(hash, key).update(signed).digest();
    const signature = prefix + bytes.toString(encoding);
    const inHeader =
      timestamp && "part" in timestamp ? timestamp.part + time + separator + signature : signature;
    return {
      ...(idHeader === null ? {} : { [idHeader]: id }),
      ...(timestamp && "header" in timestamp ? { [timestamp.header]: time } : {}),
      [scheme.header]: inHeader,
    };
  };
}
