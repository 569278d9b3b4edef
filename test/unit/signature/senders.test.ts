import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign as signBytes,
} from "node:crypto";
import { verify as verifyLikeGitHub } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner, makeStandardSigner } from "../../../src/signature/sign.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { distinct, makeSecrets } from "../../support/signing/signing.ts";

const nowSeconds = Math.floor(Date.now() / 1_000);
const text = '{"id":"evt_1","type":"order.picked_up","name":"Zoë ☕"}';
const body = Buffer.from(text);
const makeSecret = () => `whsec_${randomBytes(24).toString("base64")}`;
const standardSecret = makeSecret();

type Verify = (headers: Record<string, string>) => unknown;

it.each<[string, string, Verify]>([
  ["standard-webhooks", standardSecret, (headers) => new Webhook(standardSecret).verify(text, headers)],
  [
    "stripe",
    "whsec_of_stripe_is_text",
    (headers) =>
      Stripe.webhooks.signature?.verifyHeader(
        body,
        headers["stripe-signature"]!,
        "whsec_of_stripe_is_text",
        300,
      ),
  ],
  [
    "github",
    "It's a Secret",
    (headers) => verifyLikeGitHub("It's a Secret", text, headers["x-hub-signature-256"]!),
  ],
])("the library of %s accepts what we sign", async (preset, secret, verify) => {
  const headers = makeSigner({ scheme: loadScheme(preset), secret })({ id: "msg_2", body, nowSeconds });
  expect(await verify(headers)).toBeTruthy();
});

it("verifies SendGrid's published event, and no other body", () => {
  const event = {
    email: "hello@world.com",
    event: "dropped",
    reason: "Bounced Address",
    sg_event_id: "ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",
    sg_message_id: "LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0",
    "smtp-id": "<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>",
    timestamp: 1_600_112_492,
  };
  const secret =
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==";
  const headersDistinct = distinct({
    "X-Twilio-Email-Event-Webhook-Signature":
      "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=",
    "X-Twilio-Email-Event-Webhook-Timestamp": "1600112502",
  });
  const verifier = loadVerifier({ scheme: loadScheme("sendgrid"), secrets: [secret] });
  const valid = [`${JSON.stringify([event])}\r\n`, JSON.stringify([event])].map(
    (sent) => verifier.verify({ headersDistinct, body: Buffer.from(sent), nowSeconds: 1_600_112_510 }).valid,
  );
  expect(valid).toEqual([true, false]);
});

describe("public keys", () => {
  const kinds = ["ecdsa-p256-sha256", "ecdsa-p384-sha384", "ed25519", "rsa-sha256"] as const;
  const schemeOf = (algorithm: string) =>
    loadScheme(JSON.stringify({ header: "x-sig", encoding: "base64", algorithm, secretFormat: "spki" }));
  const keysOf = (algorithm: string) => makeSecrets(schemeOf(algorithm), Buffer.alloc(0));

  it.each(kinds)("of another kind than %s, private or too short ones are refused", (algorithm) => {
    const { signing, verifying } = keysOf(algorithm);
    const load = (secret: string) => () => loadVerifier({ scheme: schemeOf(algorithm), secrets: [secret] });
    const pem = createPublicKey({ key: Buffer.from(verifying, "base64"), format: "der", type: "spki" })
      .export({ format: "pem", type: "spki" })
      .toString();
    for (const good of [verifying, pem, pem.replaceAll("\n", String.raw`\n`)])
      expect(load(good)).not.toThrow();
    const short = generateKeyPairSync("rsa", { modulusLength: 1_024 }).publicKey;
    const others = kinds.filter((other) => other !== algorithm).map((other) => keysOf(other).verifying);
    for (const bad of [signing, short.export({ format: "der", type: "spki" }).toString("base64"), ...others])
      expect(load(bad)).toThrow("is no public key");
  });

  it("verify ECDSA as DER and as two plain numbers", () => {
    const { signing, verifying } = keysOf("ecdsa-p256-sha256");
    const key = createPrivateKey({ key: Buffer.from(signing, "base64"), format: "der", type: "pkcs8" });
    const verifier = loadVerifier({ scheme: schemeOf("ecdsa-p256-sha256"), secrets: [verifying] });
    for (const dsaEncoding of ["der", "ieee-p1363"] as const) {
      const headersDistinct = {
        "x-sig": [signBytes("sha256", body, { key, dsaEncoding }).toString("base64")],
      };
      expect(verifier.verify({ headersDistinct, body, nowSeconds })).toMatchObject({ valid: true });
    }
  });
});

it.each([
  ["github", ""],
  ["standard-webhooks", "whsec_"],
  ["onfleet", "xyz"],
  ["standard-webhooks-ed25519", "whsk_AAAA"],
])("refuses to sign by %s with the secret %j, which does not fit", (preset, secret) => {
  expect(() => makeSigner({ scheme: loadScheme(preset), secret })).toThrow(ConfigurationError);
});

it("signs with each secret, so that a receiver with one of them accepts the message", () => {
  const { d = "", x = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const toBase64 = (base64url: string) => Buffer.from(base64url, "base64url").toString("base64");
  const [older, newer] = [makeSecret(), makeSecret()];
  const headers = makeStandardSigner([newer, `whsk_${toBase64(d)}`, older])({
    id: "msg_1",
    body,
    nowSeconds,
  });
  const signatures = headers["webhook-signature"]?.split(" ") ?? [];
  expect(signatures.map((each) => each.split(",")[0])).toEqual(["v1", "v1a", "v1"]);
  // The reference library of the receiver, with the old secret and with the new one.
  for (const secret of [older, newer])
    expect(new Webhook(secret).verify(text, headers)).toEqual(JSON.parse(text));
  expect(() => new Webhook(makeSecret()).verify(text, headers)).toThrow("No matching signature found");
  const scheme = loadScheme("standard-webhooks-ed25519");
  const verifier = loadVerifier({ scheme, secrets: [`whpk_${toBase64(x)}`] });
  expect(verifier.verify({ headersDistinct: distinct(headers), body, nowSeconds })).toMatchObject({
    valid: true,
  });
  expect(() => makeStandardSigner(["whsk_short"])).toThrow("The secret to sign with");
});
