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
const anyTrial: fc.Arbitrary<Trial> = fc
  .record({
    algorithm: fc.constantFrom(...ALGORITHM_NAMES),
    encoding: fc.constantFrom("hex", "base64", "base64url"),
    separator: fc.constantFrom("", ",", ";"),
    lead: fc.constantFrom("", "HMAC "),
    prefix: fc.constantFrom("", "v1=", "sig="),
    timeIn: fc.constantFrom<object>({ header: "x-sent-at" }, { part: "t=" }),
    unit: fc.constantFrom("s", "ms", "iso"),
    secretFormat: fc.constantFrom("utf8", "base64", "hex", "whsec"),
    values: fc.subarray(["{timestamp}", "{id}", "{url}", "POST"], { maxLength: 3 }),
    joiner: fc.constantFrom(".", ":", "\n", "|", ","),
    json: fc.jsonValue({ maxDepth: 1 }),
  })
  .map(({ values, joiner, timeIn, unit, json, ...rest }): Trial | undefined => {
    const scheme = {
      ...rest,
      header: "x-delivery-proof",
      ...(!rest.algorithm.startsWith("hmac") && { secretFormat: "whpk" }),
      signed: [...values, "{body}"].join(joiner),
      timestamp: values.includes("{timestamp}") ? { ...timeIn, unit } : null,
      idHeader: values.includes("{id}") ? "x-event-id" : null,
    };
    try {
      const body = Buffer.from(JSON.stringify({ value: json }));
      return { scheme: loadScheme(JSON.stringify(scheme)), body };
    } catch {
      return undefined;
    }
  })
  .filter((trial) => trial !== undefined);

const sign = ({ scheme, body }: Trial, id = "evt_5fe1", at = NOW): CapturedRequest =>
  captureSigned(scheme, makeSecrets(scheme, KEY).signing, { id, body, nowSeconds: at });

function verifierOf(scheme: Scheme) {
  const verifier = loadVerifier({ scheme, secrets: [makeSecrets(scheme, KEY).verifying], url: ENDPOINT_URL });
  return (request: CapturedRequest) => verifier.verify({ ...request, nowSeconds: NOW }).valid;
}

/** The request with one signed part changed, once for each. */
function changeEach({ scheme }: Trial, request: CapturedRequest): CapturedRequest[] {
  const { body, headersDistinct } = request;
  const [first, last] = [Buffer.from(body), Buffer.from(body)];
  first[0]! ^= 1;
  last[last.length - 1]! ^= 1;
  const changed = [first, last, Buffer.from(`${body.toString()} `)].map((other) => ({
    ...request,
    body: other,
  }));
  if (scheme.idHeader === null) return changed;
  const [id = ""] = headersDistinct[scheme.idHeader] ?? [];
  return [...changed, { ...request, headersDistinct: { ...headersDistinct, [scheme.idHeader]: [`${id}x`] } }];
}

it("any scheme of the model verifies what it signs, and no change of a signed part verifies", () => {
  fc.assert(
    fc.property(anyTrial, (trial) => {
      const request = sign(trial);
      const verify = verifierOf(trial.scheme);
      expect(verify(request)).toBe(true);
      expect(changeEach(trial, request).filter(verify)).toEqual([]);
      expect(verify(sign(trial, "evt_5fe1", NOW - 86_401)) && trial.scheme.timestamp !== null).toBe(false);
    }),
    { numRuns: process.env["TEST_LONG"] === "1" ? 5_000 : 60 },
  );
});
