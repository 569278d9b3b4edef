import fc from "fast-check";
import type { CapturedRequest } from "../../../src/signature/identify/candidates.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import type { Scheme, TemplateScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { captureSigned, ENDPOINT_URL, makeSecrets } from "./signing.ts";

export const NOW = 1_790_000_000;
export const KEY = Buffer.from("thirty-two bytes of a good key!!");

export interface Trial {
  readonly scheme: TemplateScheme;
  readonly body: Buffer;
}

/** Schemes of the default form over every field of the model; those that are refused at load are left out. */
export function arbitraryTrial(algorithms: readonly string[]): fc.Arbitrary<Trial> {
  const joiner = fc.constantFrom(".", ":", "\n", "|", ",");
  const values = fc.subarray(["{timestamp}", "{id}", "{header:x-topic}", "{url}", "POST"], { maxLength: 3 });
  const fields = fc.record({
    algorithm: fc.constantFrom(...algorithms),
    encoding: fc.constantFrom("hex", "base64", "base64url"),
    place: fc.constantFrom({ header: "x-delivery-proof" }, { query: "proof" }),
    separator: fc.constantFrom("", ",", ";"),
    lead: fc.constantFrom("", "HMAC "),
    prefix: fc.constantFrom("", "v1=", "sig="),
    timeIn: fc.constantFrom<object>({ header: "x-sent-at" }, { query: "at" }, { part: "t=" }),
    unit: fc.constantFrom("s", "ms", "iso"),
    secretFormat: fc.constantFrom("utf8", "base64", "hex", "whsec"),
    values,
    joiner,
    body: fc.constantFrom("{body}", "{body:sha256:hex}"),
  });
  return fc
    .tuple(fields, fc.jsonValue({ maxDepth: 1 }))
    .map(([{ place, values: before, joiner: by, body, timeIn, unit, ...rest }, json]) => {
      const signed = [...before, body].join(by);
      const isPair = !rest.algorithm.startsWith("hmac");
      const scheme = {
        ...rest,
        ...place,
        ...(isPair && { secretFormat: "spki" }),
        signed,
        timestamp: before.includes("{timestamp}") ? { ...timeIn, unit } : null,
        idHeader: before.includes("{id}") ? "x-event-id" : null,
        // A lead without parts would be reported as a prefix.
        lead: rest.separator === "" ? "" : rest.lead,
      };
      return { text: JSON.stringify(scheme), body: Buffer.from(JSON.stringify({ value: json })) };
    })
    .map(({ text, body }): Trial | undefined => {
      try {
        return { scheme: loadScheme(text) as TemplateScheme, body };
      } catch {
        return undefined;
      }
    })
    .filter((trial) => trial !== undefined);
}

export const sign = ({ scheme, body }: Trial, id = "evt_5fe1", at = NOW): CapturedRequest =>
  captureSigned(scheme, makeSecrets(scheme, KEY).signing, {
    id,
    body,
    nowSeconds: at,
    values: { "header:x-topic": "orders" },
    headers: {},
  });

export function verifierOf(scheme: Scheme) {
  const verifier = loadVerifier({ scheme, secrets: [makeSecrets(scheme, KEY).verifying], url: ENDPOINT_URL });
  return ({ headersDistinct, body, target }: CapturedRequest) =>
    verifier.verify({ headersDistinct, body, query: target?.split("?")[1], nowSeconds: NOW }).valid;
}
