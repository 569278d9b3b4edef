import { generateKeyPairSync, randomBytes } from "node:crypto";
import { sign as signLikeGitHub, verify as verifyLikeGitHub } from "@octokit/webhooks-methods";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { PRESETS } from "../../../src/signature/presets.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import type { Scheme } from "../../../src/signature/scheme.ts";
import { makeSigner, makeStandardSigner } from "../../../src/signature/sign.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { distinct, makeSecrets } from "../../support/signing/signing.ts";

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

const EXTRA = [
  '{"header":"x-sig","algorithm":"hmac-sha1","encoding":"base64url","prefix":"s=","secretFormat":"base64"}',
  '{"header":"x-sig","signed":"{body}|{url}|{timestamp}|{id}","timestamp":{"header":"x-at","unit":"ms"},"idHeader":"x-id"}',
];

describe.each([...Object.keys(PRESETS), ...EXTRA])("a request signed by %s", (preset) => {
  const scheme = loadScheme(preset);
  const field = scheme.header;
  const anything = fc.record({
    id: fc.stringMatching(/^[A-Za-z0-9_-]{1,40}$/),
    body: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    key: fc.uint8Array({ minLength: 16, maxLength: 64 }),
    at: fc.integer({ min: 1, max: 4_000_000_000 }),
  });
  const prepare = ({
    id,
    body: bytes,
    key,
    at,
  }: {
    id: string;
    body: Buffer;
    key: Uint8Array;
    at: number;
  }) => {
    const { signing, verifying } = makeSecrets(scheme, key);
    const headers = makeSigner({ scheme, secret: signing, url: URL })({ id, body: bytes, nowSeconds: at });
    const verifier = loadVerifier({ scheme, secrets: [verifying], url: URL });
    const verify = (changed: Record<string, string>, changedBody = bytes) =>
      verifier.verify({ headersDistinct: distinct(changed), body: changedBody, nowSeconds: at });
    return { headers, verify };
  };

  it("verifies", () => {
    fc.assert(
      fc.property(anything, (input) => {
        const { headers, verify } = prepare(input);
        expect(verify(headers)).toEqual({
          valid: true,
          secretIndex: 0,
          id: scheme.idHeader === null ? null : input.id,
        });
      }),
      { numRuns: 25 },
    );
  });

  it("fails with one bit flipped in body or signature, or one character in id or timestamp", () => {
    fc.assert(
      fc.property(anything, fc.nat(), (input, where) => {
        const { headers, verify } = prepare(input);
        const header = headers[field]!;
        const flipped = { ...headers, [field]: flipSignature(scheme, header, where) };
        expect(verify(flipped)).toEqual({ valid: false, reason: "signature_mismatch" });
        const bodies = [flipBit(Buffer.concat([input.body, Buffer.from([1])]), where)];
        if (input.body.length > 0) bodies.push(flipBit(input.body, where), input.body.subarray(1));
        const others = Object.keys(headers).filter((name) => name !== field);
        const changes = others.map((name) => ({ [name]: changeCharacter(headers[name]!, where) }));
        if (scheme.timestamp && "part" in scheme.timestamp) {
          changes.push({
            [field]: header.replace(/\d+/, (digits) => changeCharacter(digits, where)),
          });
        }
        const verdicts = [
          ...bodies.map((changed) => verify(headers, changed)),
          ...changes.map((changed) => verify({ ...headers, ...changed })),
        ];
        expect(verdicts.filter(({ valid }) => valid)).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });
});

function flipBit(bytes: Buffer, where: number): Buffer {
  const flipped = Buffer.from(bytes);
  flipped[where % bytes.length]! ^= 1 << (where % 8);
  return flipped;
}

function flipSignature({ prefix, encoding, timestamp }: Scheme, header: string, where: number): string {
  const start = timestamp && "part" in timestamp ? header.indexOf(prefix) : 0;
  const signature = Buffer.from(header.slice(start + prefix.length), encoding);
  return header.slice(0, start) + prefix + flipBit(signature, where).toString(encoding);
}

function changeCharacter(value: string, where: number): string {
  const at = where % value.length;
  return value.slice(0, at) + (value[at] === "1" ? "2" : "1") + value.slice(at + 1);
}

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
