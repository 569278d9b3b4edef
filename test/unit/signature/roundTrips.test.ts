import { generateKeyPairSync, randomBytes } from "node:crypto";
import { sign as signLikeGitHub, verify as verifyLikeGitHub } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner, makeStandardSigner } from "../../../src/signature/sign.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { distinct } from "../../support/signing/signing.ts";

const nowSeconds = Math.floor(Date.now() / 1_000);
const URL = "https://merchant.test/webhooks/live";
const text = '{"id":"evt_1","type":"order.picked_up","name":"Zoë ☕"}';
const body = Buffer.from(text);

const verifierOf = (preset: string, secret: string) =>
  loadVerifier({ scheme: loadScheme(preset), secrets: [secret], url: URL });

describe("agrees with the senders' own libraries", () => {
  it("standardwebhooks, in both directions", () => {
    const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const theirs = new Webhook(secret);
    const signed = {
      "webhook-id": "msg_1",
      "webhook-timestamp": String(nowSeconds),
      "webhook-signature": theirs.sign("msg_1", new Date(nowSeconds * 1_000), text),
    };
    const verdict = verifierOf("standard-webhooks", secret).verify({
      headersDistinct: distinct(signed),
      body,
      nowSeconds,
    });
    expect(verdict).toEqual({ valid: true, secretIndex: 0, id: "msg_1" });
    const sign = makeSigner({ scheme: loadScheme("standard-webhooks"), secret });
    expect(theirs.verify(text, sign({ id: "msg_2", body, nowSeconds }))).toEqual(JSON.parse(text));
  });

  it("stripe, in both directions", () => {
    const secret = "whsec_of_stripe_is_text";
    const header = Stripe.webhooks.generateTestHeaderString({ payload: text, secret, timestamp: nowSeconds });
    const verifier = verifierOf("stripe", secret);
    const verify = (value: string) =>
      verifier.verify({ headersDistinct: { "stripe-signature": [value] }, body, nowSeconds }).valid;
    expect(verify(header)).toBe(true);
    expect(verify(header.replace("v1=", "v0="))).toBe(false);
    const ours = makeSigner({ scheme: loadScheme("stripe"), secret })({ id: "", body, nowSeconds });
    expect(Stripe.webhooks.signature?.verifyHeader(body, ours["stripe-signature"]!, secret, 300)).toBe(true);
  });

  it("@octokit/webhooks-methods, in both directions", async () => {
    const secret = "It's a Secret to Everybody";
    const header = await signLikeGitHub(secret, text);
    const headersDistinct = { "x-hub-signature-256": [header] };
    expect(verifierOf("github", secret).verify({ headersDistinct, body, nowSeconds }).valid).toBe(true);
    const ours = makeSigner({ scheme: loadScheme("github"), secret })({ id: "", body, nowSeconds });
    expect(await verifyLikeGitHub(secret, text, ours["x-hub-signature-256"]!)).toBe(true);
  });
});

it("refuses to sign with a secret that does not fit the scheme", () => {
  for (const [preset, secret] of [
    ["github", ""],
    ["standard-webhooks", "whsec_"],
    ["onfleet", "xyz"],
    ["standard-webhooks-ed25519", "whsk_AAAA"],
  ] as const) {
    expect(() => makeSigner({ scheme: loadScheme(preset), secret })).toThrow(ConfigurationError);
  }
});

const makeSecret = () => `whsec_${randomBytes(24).toString("base64")}`;
const { d = "", x = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
const toBase64 = (base64url: string) => Buffer.from(base64url, "base64url").toString("base64");

it("signs with each secret, so that a receiver with one of them accepts the message", () => {
  const [older, newer] = [makeSecret(), makeSecret()];
  const sign = makeStandardSigner([newer, `whsk_${toBase64(d)}`, older]);
  const headers = sign({ id: "msg_1", body, nowSeconds });
  const signatures = headers["webhook-signature"]?.split(" ") ?? [];
  expect(signatures.map((each) => each.split(",")[0])).toEqual(["v1", "v1a", "v1"]);
  // The reference library of the receiver, with the old secret and with the new one.
  for (const secret of [older, newer])
    expect(new Webhook(secret).verify(body.toString(), headers)).toEqual(JSON.parse(text));
  expect(() => new Webhook(makeSecret()).verify(body.toString(), headers)).toThrow(
    "No matching signature found",
  );
  const scheme = loadScheme("standard-webhooks-ed25519");
  const verifier = loadVerifier({ scheme, secrets: [`whpk_${toBase64(x)}`] });
  expect(verifier.verify({ headersDistinct: distinct(headers), body, nowSeconds })).toMatchObject({
    valid: true,
  });
});

it("refuses a secret that cannot sign", () => {
  expect(() => makeStandardSigner(["whsk_short"])).toThrow("The secret to sign with");
});
