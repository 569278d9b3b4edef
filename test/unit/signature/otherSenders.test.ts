import { createPrivateKey, createPublicKey, generateKeyPairSync, sign as signBytes } from "node:crypto";
import { EventWebhook } from "@sendgrid/eventwebhook";
import { describe, expect, it } from "vitest";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { distinct, ENDPOINT_URL, makeSecrets } from "../../support/signing/signing.ts";

const NOW = 1_790_000_000;
const TEXT = '{"id":"evt_1","type":"order.picked_up","name":"Zoë ☕"}';
const BODY = Buffer.from(TEXT);

interface Sent {
  scheme: string | object;
  secret: string;
  headers: Record<string, string>;
  body?: Buffer;
  url?: string;
  now?: number;
}

function verdictOn({ scheme, secret, headers, body = BODY, url = ENDPOINT_URL, now = NOW }: Sent) {
  const loaded = loadScheme(typeof scheme === "string" ? scheme : JSON.stringify(scheme));
  return loadVerifier({ scheme: loaded, secrets: [secret], url }).verify({
    headersDistinct: distinct(headers),
    body,
    nowSeconds: now,
  });
}

const accepted = { valid: true, secretIndex: 0, id: null };
const refused = (reason: string) => ({ valid: false, reason });

describe("SendGrid, ECDSA", () => {
  const pair = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const publicKey = pair.publicKey.export({ format: "der", type: "spki" }).toString("base64");
  const privateKey = pair.privateKey.export({ format: "der", type: "pkcs8" }).toString("base64");

  it("verifies its published event", () => {
    const event = {
      email: "hello@world.com",
      event: "dropped",
      reason: "Bounced Address",
      sg_event_id: "ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",
      sg_message_id: "LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0",
      "smtp-id": "<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>",
      timestamp: 1_600_112_492,
    };
    const sent = {
      scheme: "sendgrid",
      secret:
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==",
      headers: {
        "X-Twilio-Email-Event-Webhook-Signature":
          "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=",
        "X-Twilio-Email-Event-Webhook-Timestamp": "1600112502",
      },
      body: Buffer.from(`${JSON.stringify([event])}\r\n`),
      now: 1_600_112_510,
    };
    expect(verdictOn(sent)).toEqual(accepted);
    expect(verdictOn({ ...sent, body: Buffer.from(JSON.stringify([event])) })).toEqual(
      refused("signature_mismatch"),
    );
  });

  it("signs so that its own library verifies", () => {
    const headers = makeSigner({ scheme: loadScheme("sendgrid"), secret: privateKey })({
      id: "",
      body: BODY,
      nowSeconds: NOW,
    });
    expect(verdictOn({ scheme: "sendgrid", secret: publicKey, headers })).toEqual(accepted);
    const theirs = new EventWebhook();
    const [signature, time] = ["signature", "timestamp"].map(
      (name) => headers[`x-twilio-email-event-webhook-${name}`] ?? "",
    );
    const verify = (text: string) =>
      theirs.verifySignature(theirs.convertPublicKeyToECDSA(publicKey), text, signature ?? "", time ?? "");
    expect([verify(TEXT), verify(`${TEXT} `)]).toEqual([true, false]);
  });
});

describe("Twilio, the address with a hash of the body", () => {
  const body = Buffer.from('{"property": "value", "boolean": true}');
  const url = "https://example.com/myapp.php";
  const sent = {
    scheme: "twilio",
    secret: "1c892n40nd03kdnc0112slzkl3091j20",
    headers: { "x-twilio-signature": "" },
    body,
    url,
  };

  it("verifies, but not with another body, address or digest", () => {
    const headers = makeSigner({ scheme: loadScheme("twilio"), secret: sent.secret, url })({
      id: "",
      body,
      nowSeconds: NOW,
    });
    expect(verdictOn({ ...sent, headers })).toEqual(accepted);
    expect(verdictOn({ ...sent, headers, body: BODY })).toEqual(refused("signature_mismatch"));
    expect(verdictOn({ ...sent, headers, url: `${url}?foo=1` })).toEqual(refused("signature_mismatch"));
  });
});

describe("public keys", () => {
  const kinds = ["ecdsa-p256-sha256", "ecdsa-p384-sha384", "ed25519", "rsa-sha256"] as const;
  it.each(kinds)("of another kind than %s, private or too short ones are refused", (algorithm) => {
    const scheme = loadScheme(JSON.stringify({ header: "x-sig", algorithm, secretFormat: "spki" }));
    const { signing, verifying } = makeSecrets(scheme, Buffer.alloc(0));
    const load = (secret: string) => () => loadVerifier({ scheme, secrets: [secret] });
    expect(load(verifying)).not.toThrow();
    const pem = createPublicKey({ key: Buffer.from(verifying, "base64"), format: "der", type: "spki" })
      .export({ format: "pem", type: "spki" })
      .toString();
    expect(load(pem)).not.toThrow();
    expect(load(pem.replaceAll("\n", String.raw`\n`))).not.toThrow();
    const others = kinds.filter((other) => other !== algorithm);
    for (const other of others) {
      const pair = makeSecrets(
        loadScheme(JSON.stringify({ header: "x-sig", algorithm: other, secretFormat: "spki" })),
        Buffer.alloc(0),
      );
      expect(load(pair.verifying)).toThrow("is no public key of the kind");
    }
    expect(load(signing)).toThrow("is no public key of the kind");
    const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 1_024 });
    expect(load(publicKey.export({ format: "der", type: "spki" }).toString("base64"))).toThrow(
      "is no public key",
    );
  });

  it("verify ECDSA as DER and as two plain numbers", () => {
    const scheme = loadScheme(
      '{"header":"x-sig","algorithm":"ecdsa-p256-sha256","encoding":"base64","secretFormat":"spki"}',
    );
    const { signing, verifying } = makeSecrets(scheme, Buffer.alloc(0));
    const key = createPrivateKey({ key: Buffer.from(signing, "base64"), format: "der", type: "pkcs8" });
    for (const dsaEncoding of ["der", "ieee-p1363"] as const) {
      const signature = signBytes("sha256", BODY, { key, dsaEncoding }).toString("base64");
      expect(
        verdictOn({ scheme: { ...scheme }, secret: verifying, headers: { "x-sig": signature } }),
      ).toEqual(accepted);
    }
  });
});
