import fc from "fast-check";
import { expect, it } from "vitest";
import { identifyScheme } from "../../../src/signature/identify/identifyScheme.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { capture, draw, NOW, SENDERS } from "../../support/signing/senders.ts";
import { ENDPOINT_URL } from "../../support/signing/signing.ts";

/** Random secrets and requests for each sender. */
const DRAWS = 20;

it.each(Object.entries(SENDERS))(
  "what %s signs is identified, and what is found verifies another request",
  async (_, { preset, secretOf, sign }) => {
    for (const { bytes, letters } of fc.sample(draw, { numRuns: DRAWS })) {
      const secret = secretOf(bytes);
      const signed = await Promise.all(letters.map(async (each) => capture(await sign(each, secret), each)));
      const [first, second, third] = signed;
      const requests = [first!, second!];
      const [best] = identifyScheme({ requests, secret, nowSeconds: NOW, url: ENDPOINT_URL }).matches;
      expect(best?.preset).toBe(preset);
      const scheme = loadScheme(best!.setting);
      const { verify } = loadVerifier({ scheme, secrets: [secret], url: ENDPOINT_URL });
      expect(verify({ ...third!, nowSeconds: NOW }).valid).toBe(true);
      expect(verify({ ...third!, body: first!.body, nowSeconds: NOW }).valid).toBe(false);
    }
  },
  60_000,
);
