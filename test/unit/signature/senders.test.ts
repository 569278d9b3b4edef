import { randomBytes } from "node:crypto";
import { verify as verifyLikeGitHub } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { expect, it } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";

const nowSeconds = Math.floor(Date.now() / 1_000);
const text = '{"id":"evt_1","type":"order.picked_up","name":"Zoë ☕"}';
const body = Buffer.from(text);
const makeSecret = () => `whsec_${randomBytes(24).toString("base64")}`;

type Verify = (headers: Record<string, string>, secret: string) => unknown;

it.each<[string, string, Verify]>([
  [
    "stripe",
    "whsec_of_stripe_is_text",
    (headers, secret) =>
      Stripe.webhooks.signature?.verifyHeader(body, headers["stripe-signature"]!, secret, 300),
  ],
  [
    "github",
    "It's a Secret",
    (headers, secret) => verifyLikeGitHub(secret, text, headers["x-hub-signature-256"]!),
  ],
])("the library of %s accepts what we sign", async (preset, secret, verify) => {
  const sign = makeSigner({ scheme: loadScheme(preset), secrets: [secret] });
  expect(await verify(sign({ id: "msg_2", body, nowSeconds }), secret)).toBeTruthy();
});

it.each([
  ["github", ""],
  ["standard-webhooks", "whsec_"],
  ["onfleet", "xyz"],
  ["standard-webhooks-ed25519", "whsk_AAAA"],
])("refuses to sign by %s with the secret %j, which does not fit", (preset, secret) => {
  expect(() => makeSigner({ scheme: loadScheme(preset), secrets: [secret] })).toThrow(ConfigurationError);
});

it("signs with each secret, so that a receiver with one of them accepts the message", () => {
  const [older, newer] = [makeSecret(), makeSecret()];
  const headers = makeSigner({ secrets: [newer, older] })({ id: "msg_1", body, nowSeconds });
  const signatures = headers["webhook-signature"]?.split(" ") ?? [];
  expect(signatures.map((each) => each.split(",")[0])).toEqual(["v1", "v1"]);
  // The reference library of the receiver, with the old secret and with the new one.
  for (const secret of [older, newer])
    expect(new Webhook(secret).verify(text, headers)).toEqual(JSON.parse(text));
  expect(() => new Webhook(makeSecret()).verify(text, headers)).toThrow("No matching signature found");
  // None is left out: the receiver may know only that one.
  expect(() => makeSigner({ secrets: [newer, "whsk_short"] })).toThrow("The secret to sign with");
});
