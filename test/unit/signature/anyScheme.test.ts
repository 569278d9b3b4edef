import fc from "fast-check";
import { expect, it } from "vitest";
import { ALGORITHM_NAMES } from "../../../src/signature/algorithms.ts";
import type { CapturedRequest } from "../../../src/signature/identify.ts";
import { loadScheme, type Scheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { captureSigned, ENDPOINT_URL, makeSecrets } from "../../support/signing/signing.ts";

const NOW = 1_790_000_000;
const KEY = Buffer.from("thirty-two bytes of a good key!!");

interface Trial {
  readonly scheme: Scheme;
  readonly body: Buffer;
}

/** Schemes of the default form over every field of the model; those that are refused at load are left out. */
function arbitraryTrial(algorithms: readonly string[]): fc.Arbitrary<Trial> {
  const joiner = fc.constantFrom(".", ":", "\n", "|", ",");
  const values = fc.subarray(["{timestamp}", "{id}", "{url}", "POST"], { maxLength: 3 });
  const fields = fc.record({
    algorithm: fc.constantFrom(...algorithms),
    encoding: fc.constantFrom("hex", "base64", "base64url"),
    separator: fc.constantFrom("", ",", ";"),
    lead: fc.constantFrom("", "HMAC "),
    prefix: fc.constantFrom("", "v1=", "sig="),
    timeIn: fc.constantFrom<object>({ header: "x-sent-at" }, { part: "t=" }),
    unit: fc.constantFrom("s", "ms", "iso"),
    secretFormat: fc.constantFrom("utf8", "base64", "hex", "whsec"),
    values,
    joiner,
  });
  return fc
    .tuple(fields, fc.jsonValue({ maxDepth: 1 }))
    .map(([{ values: before, joiner: by, timeIn, unit, ...rest }, json]) => {
      const signed = [...before, "{body}"].join(by);
      const isPair = !rest.algorithm.startsWith("hmac");
      const scheme = {
        ...rest,
        header: "x-delivery-proof",
        ...(isPair && { secretFormat: "whpk" }),
        signed,
        timestamp: before.includes("{timestamp}") ? { ...timeIn, unit } : null,
        idHeader: before.includes("{id}") ? "x-event-id" : null,
      };
      return { text: JSON.stringify(scheme), body: Buffer.from(JSON.stringify({ value: json })) };
    })
    .map(({ text, body }): Trial | undefined => {
      try {
        return { scheme: loadScheme(text), body };
      } catch {
        return undefined;
      }
    })
    .filter((trial) => trial !== undefined);
}

const sign = ({ scheme, body }: Trial, id = "evt_5fe1", at = NOW): CapturedRequest =>
  captureSigned(scheme, makeSecrets(scheme, KEY).signing, {
    id,
    body,
    nowSeconds: at,
  });

function verifierOf(scheme: Scheme) {
  const verifier = loadVerifier({ scheme, secrets: [makeSecrets(scheme, KEY).verifying], url: ENDPOINT_URL });
  return (request: CapturedRequest) => verifier.verify({ ...request, nowSeconds: NOW }).valid;
}

/** The request with one character or byte changed in a signed part, once for each place. */
function changeEach({ scheme }: Trial, request: CapturedRequest): CapturedRequest[] {
  const bodies = [0, request.body.length - 1].map((at) => {
    const body = Buffer.from(request.body);
    body[at]! ^= 1;
    return { ...request, body };
  });
  const signedHeaders = scheme.idHeader === null ? [] : [scheme.idHeader];
  const headers = signedHeaders.map((name) => {
    const text = request.headersDistinct[name]?.[0] ?? "";
    return { ...request, headersDistinct: { ...request.headersDistinct, [name]: [`${text}x`] } };
  });
  return [...bodies, { ...request, body: Buffer.concat([request.body, Buffer.from(" ")]) }, ...headers];
}

it("any scheme of the model verifies what it signs, and no change of a signed part verifies", () => {
  fc.assert(
    fc.property(arbitraryTrial(ALGORITHM_NAMES), (trial) => {
      const request = sign(trial);
      const verify = verifierOf(trial.scheme);
      expect(verify(request)).toBe(true);
      expect(changeEach(trial, request).filter(verify)).toEqual([]);
      expect(verify(sign(trial, "evt_5fe1", NOW - 86_401)) && trial.scheme.timestamp !== null).toBe(false);
    }),
    { numRuns: process.env["TEST_LONG"] === "1" ? 5_000 : 60 },
  );
});
