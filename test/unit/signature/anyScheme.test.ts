import fc from "fast-check";
import { expect, it } from "vitest";
import { ALGORITHM_NAMES } from "../../../src/signature/algorithms.ts";
import type { CapturedRequest } from "../../../src/signature/identify/candidates.ts";
import { arbitraryTrial, NOW, sign, verifierOf } from "../../support/signing/schemeTrials.ts";
import type { Trial } from "../../support/signing/schemeTrials.ts";

/** The request with one character or byte changed in a signed part, once for each place. */
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

it("any scheme of the model verifies what it signs, and no change of a signed part verifies", () => {
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
});
