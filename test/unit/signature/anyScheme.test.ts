import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ALGORITHM_NAMES } from "../../../src/signature/algorithms.ts";
import type { CapturedRequest } from "../../../src/signature/identify/candidates.ts";
import { identifyScheme } from "../../../src/signature/identify/identifyScheme.ts";
import { algorithmOf, loadScheme } from "../../../src/signature/scheme.ts";
import type { Scheme, TemplateScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { captureSigned, ENDPOINT_URL, makeSecrets } from "../../support/signing.ts";

const NOW = 1_790_000_000;
const KEY = Buffer.from("thirty-two bytes of a good key!!");

interface Trial {
  readonly scheme: TemplateScheme;
  readonly body: Buffer;
}

/** Schemes of the default form over every field of the model; those that are refused at load are left out. */
function arbitraryTrial(algorithms: readonly string[]): fc.Arbitrary<Trial> {
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
        // A lead without parts would be told as a prefix.
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

const sign = ({ scheme, body }: Trial, id = "evt_5fe1", at = NOW): CapturedRequest =>
  captureSigned(scheme, makeSecrets(scheme, KEY).signing, {
    id,
    body,
    nowSeconds: at,
    values: { "header:x-topic": "orders" },
    headers: {},
  });

function verifierOf(scheme: Scheme) {
  const verifier = loadVerifier({ scheme, secrets: [makeSecrets(scheme, KEY).verifying], url: ENDPOINT_URL });
  return ({ headersDistinct, body, target }: CapturedRequest) =>
    verifier.verify({ headersDistinct, body, query: target?.split("?")[1], nowSeconds: NOW }).valid;
}

/** The request with one character or byte changed in what the scheme signs, one for each place. */
function changeEach({ scheme }: Trial, request: CapturedRequest): CapturedRequest[] {
  const bodies = [0, request.body.length - 1].map((at) => {
    const body = Buffer.from(request.body);
    body[at]! ^= 1;
    return { ...request, body };
  });
  const signedHeaders = [scheme.idHeader, scheme.signed.includes("x-topic") ? "x-topic" : null].filter(
    (name) => name !== null,
  );
  const headers = signedHeaders.map((name) => {
    const text = request.headersDistinct[name]?.[0] ?? "";
    return { ...request, headersDistinct: { ...request.headersDistinct, [name]: [`${text}x`] } };
  });
  return [...bodies, { ...request, body: Buffer.concat([request.body, Buffer.from(" ")]) }, ...headers];
}

describe("any scheme of the model", () => {
  it("signs what it verifies, and no change of what is signed verifies", () => {
    fc.assert(
      fc.property(arbitraryTrial(ALGORITHM_NAMES), (trial) => {
        const request = sign(trial);
        const verify = verifierOf(trial.scheme);
        expect(verify(request)).toBe(true);
        expect(changeEach(trial, request).filter(verify)).toEqual([]);
        expect(verify(sign(trial, "evt_5fe1", NOW - 86_401)) && trial.scheme.timestamp !== null).toBe(false);
      }),
      { numRuns: 60 },
    );
  }, 60_000);

  it("is found from two requests, by a scheme that verifies a third", () => {
    fc.assert(
      fc.property(arbitraryTrial(["hmac-sha256", "hmac-sha512", "hmac-sha1"]), (trial) => {
        const others = ['{"second":2}', '{"third":3}'].map((text) => ({ ...trial, body: Buffer.from(text) }));
        const [second, third] = others.map((other, index) => sign(other, `evt_${index}`, NOW - index - 1));
        const { verifying: secret } = makeSecrets(trial.scheme, KEY);
        const requests = [sign(trial), second!];
        const [best] = identifyScheme({ requests, secret, nowSeconds: NOW, url: ENDPOINT_URL }).matches;
        expect({ scheme: trial.scheme, found: best?.setting }).toMatchObject({
          found: expect.any(String) as string,
        });
        expect(algorithmOf(best!.scheme)).toBe(algorithmOf(trial.scheme));
        const verify = verifierOf({ ...(best!.scheme as TemplateScheme) });
        expect([verify(third!), verify({ ...third!, body: trial.body })]).toEqual([true, false]);
      }),
      { numRuns: 10 },
    );
  }, 120_000);
});
