import { generateKeyPairSync, randomBytes } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { expect, it } from "vitest";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeStandardSigner } from "../../../src/signature/sign.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";

const makeSecret = () => `whsec_${randomBytes(24).toString("base64")}`;
const { d = "", x = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
const toBase64 = (base64url: string) => Buffer.from(base64url, "base64url").toString("base64");

it("signs with each secret, so that a receiver with one of them accepts the message", () => {
  const [older, newer] = [makeSecret(), makeSecret()];
  const sign = makeStandardSigner([newer, `whsk_${toBase64(d)}`, older]);
  const body = Buffer.from('{"type":"order.changed"}');
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const headers = sign({ id: "msg_1", body, nowSeconds });
  const signatures = headers["webhook-signature"]?.split(" ") ?? [];
  expect(signatures.map((each) => each.split(",")[0])).toEqual(["v1", "v1a", "v1"]);
  // The reference library of the receiver, with the old secret and with the new one.
  for (const secret of [older, newer])
    expect(new Webhook(secret).verify(body.toString(), headers)).toEqual({ type: "order.changed" });
  expect(() => new Webhook(makeSecret()).verify(body.toString(), headers)).toThrow(
    "No matching signature found",
  );
  const scheme = loadScheme("standard-webhooks-ed25519");
  const verifier = loadVerifier({ scheme, secrets: [`whpk_${toBase64(x)}`] });
  const headersDistinct = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));
  expect(verifier.verify({ headersDistinct, body, nowSeconds })).toMatchObject({ valid: true });
});

it("refuses a secret that cannot sign", () => {
  expect(() => makeStandardSigner(["whsk_short"])).toThrow("The secret to sign with");
});
