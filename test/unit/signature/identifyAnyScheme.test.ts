import fc from "fast-check";
import { expect, it } from "vitest";
import { identifyScheme } from "../../../src/signature/identify/identifyScheme.ts";
import { algorithmOf, loadScheme } from "../../../src/signature/scheme.ts";
import type { TemplateScheme } from "../../../src/signature/scheme.ts";
import { arbitraryTrial, KEY, NOW, sign, verifierOf } from "../../support/signing/schemeTrials.ts";
import type { Trial } from "../../support/signing/schemeTrials.ts";
import { ENDPOINT_URL, makeSecrets } from "../../support/signing/signing.ts";

/** A time with colons and a point next to the signature, which can be split in many ways. */
const DATED: Trial = {
  scheme: loadScheme(
    JSON.stringify({
      algorithm: "hmac-sha256",
      encoding: "hex",
      secretFormat: "utf8",
      header: "x-delivery-proof",
      separator: ",",
      prefix: "v1=",
      signed: "{timestamp}.{header:x-topic}.{url}.{body}",
      timestamp: { part: "t=", unit: "iso" },
    }),
  ) as TemplateScheme,
  body: Buffer.from('{"value":[]}'),
};

it("any scheme of the model is identified from two requests, as one that verifies a third", () => {
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
    { numRuns: 10, examples: [[DATED]] },
  );
});
