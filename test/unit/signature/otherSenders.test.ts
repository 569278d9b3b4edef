import { createPrivateKey, createPublicKey, generateKeyPairSync, hash, sign as signBytes } from "node:crypto";
import { EventWebhook } from "@sendgrid/eventwebhook";
import { createSigner, httpbis } from "http-message-signatures";
import { SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import { identifyScheme } from "../../../src/signature/identify/identifyScheme.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { ENDPOINT_URL, makeSecrets, templateScheme } from "../../support/signing/signing.ts";

const NOW = 1_790_000_000;
const TEXT = '{"id":"evt_1","type":"order.picked_up","name":"Zoë ☕"}';
const BODY = Buffer.from(TEXT);

interface Sent {
  scheme: string | object;
  secret: string;
  headers: Record<string, string>;
  body?: Buffer;
  query?: string;
  url?: string;
  now?: number;
}

function verdictOn({ scheme, secret, headers, body = BODY, query, url = ENDPOINT_URL, now = NOW }: Sent) {
  const headersDistinct = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value]]),
  );
  const loaded = loadScheme(typeof scheme === "string" ? scheme : JSON.stringify(scheme));
  return loadVerifier({ scheme: loaded, secrets: [secret], url }).verify({
    headersDistinct,
    query,
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
  const digest = hash("sha256", body);
  const url = "https://example.com/myapp.php";
  const sent = {
    scheme: "twilio",
    secret: "1c892n40nd03kdnc0112slzkl3091j20",
    headers: { "x-twilio-signature": "" },
    query: `bodySHA256=${digest}`,
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

  it("verifies the published signature of an address with parameters", () => {
    const published = {
      ...sent,
      secret: "12345",
      scheme: { ...templateScheme("twilio"), signed: "{url}&bodySHA256={body:sha256:hex}" },
      url: "https://mycompany.com/myapp.php?foo=1&bar=2",
      headers: { "x-twilio-signature": "a9nBmqA0ju/hNViExpshrM61xv4=" },
    };
    expect(verdictOn(published)).toEqual(accepted);
  });
});

describe("forms of Twilio", () => {
  // The example of Twilio's documentation.
  const url = "https://mycompany.com/myapp.php";
  const scheme = { ...templateScheme("twilio"), signed: "{url}{query}{form}" };
  const body = Buffer.from(
    "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212",
  );
  const headers = {
    "content-type": "application/x-www-form-urlencoded; charset=UTF-8",
    "x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
  };
  const published = { scheme, secret: "12345", url, query: "foo=1&bar=2", headers, body };

  it("verify by their fields, in any sequence, and are not taken for JSON", () => {
    expect(verdictOn(published)).toEqual(accepted);
    const parts = body.toString().split("&").reverse().join("&");
    expect(verdictOn({ ...published, body: Buffer.from(parts) })).toEqual(accepted);
    expect(verdictOn({ ...published, body: Buffer.from(`${parts}&More=1`) })).toEqual(
      refused("signature_mismatch"),
    );
    const asJson = { ...headers, "content-type": "application/json" };
    expect(verdictOn({ ...published, headers: asJson })).toEqual(refused("body_mismatch"));
  });

  it("cause a warning, because they are not received", () => {
    const { warnings } = loadVerifier({
      scheme: loadScheme(JSON.stringify(scheme)),
      secrets: ["0123456789abcdef"],
      url,
    });
    expect(warnings).toEqual([expect.stringContaining("415")]);
  });
});

describe("JSON Web Tokens with a hash of the body, created by jose", () => {
  const secret = "a shared secret of many bytes, 42";
  const scheme = {
    form: "jwt",
    header: "x-signature-jwt",
    bodyClaim: "request_body_sha256",
    encoding: "base64",
  };
  const token = (claims: object, { alg = "HS256", at = NOW } = {}) =>
    new SignJWT({ request_body_sha256: hash("sha256", BODY, "base64"), ...claims })
      .setProtectedHeader({ alg })
      .setIssuedAt(at)
      .sign(Buffer.from(secret));
  const verdict = async (made: Promise<string>, fields: object = {}, body = BODY) =>
    verdictOn({ scheme: { ...scheme, ...fields }, secret, headers: { "X-Signature-JWT": await made }, body });

  it("verify, but not with another body, time, algorithm or key", async () => {
    expect(await verdict(token({}))).toEqual(accepted);
    expect(await verdict(token({}), {}, Buffer.from("{}"))).toEqual(refused("body_mismatch"));
    expect(await verdict(token({ request_body_sha256: 7 }))).toEqual(refused("body_mismatch"));
    expect(await verdict(token({}, { at: NOW - 301 }))).toEqual(refused("timestamp_outside_tolerance"));
    expect(await verdict(token({ exp: NOW - 400 }))).toEqual(refused("timestamp_outside_tolerance"));
    expect(await verdict(token({}, { alg: "HS512" }))).toEqual(refused("signature_malformed"));
    expect(await verdict(token({}), { timeClaim: "exp" })).toEqual(refused("timestamp_missing"));
    const [head, claims, tail] = (await token({})).split(".");
    expect(await verdict(Promise.resolve(`${head}.${claims}.${tail!.slice(0, -2)}AA`))).toEqual(
      refused("signature_mismatch"),
    );
  });

  it("are refused when they name no algorithm, or use a public key as a shared secret", () => {
    const claims = Buffer.from(
      JSON.stringify({ iat: NOW, request_body_sha256: hash("sha256", BODY, "base64") }),
    ).toString("base64url");
    const none = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${claims}.`;
    expect(verdictOn({ scheme, secret, headers: { "x-signature-jwt": none } })).toEqual(
      refused("signature_malformed"),
    );
    const asRsa = { ...scheme, algorithm: "rsa-sha256", secretFormat: "spki" };
    const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 });
    const pem = publicKey.export({ format: "pem", type: "spki" }).toString();
    const confused = `${Buffer.from('{"alg":"HS256"}').toString("base64url")}.${claims}.${"A".repeat(342)}`;
    expect(verdictOn({ scheme: asRsa, secret: pem, headers: { "x-signature-jwt": confused } })).toEqual(
      refused("signature_malformed"),
    );
  });

  it.each([
    ["ecdsa-p256-sha256", "ES256"],
    ["ecdsa-p384-sha384", "ES384"],
    ["ed25519", "EdDSA"],
    ["rsa-sha256", "RS256"],
    ["rsa-pss-sha256", "PS256"],
  ])("verify with %s, and are identified", async (algorithm, alg) => {
    const asymmetric = loadScheme(JSON.stringify({ ...scheme, algorithm, secretFormat: "spki" }));
    const { signing, verifying } = makeSecrets(asymmetric, Buffer.alloc(0));
    const key = createPrivateKey({ key: Buffer.from(signing, "base64"), format: "der", type: "pkcs8" });
    const signed = await new SignJWT({ request_body_sha256: hash("sha256", BODY, "base64") })
      .setProtectedHeader({ alg })
      .setIssuedAt(NOW)
      .sign(key);
    const request = { headersDistinct: { "x-signature-jwt": [signed] }, body: BODY };
    expect(identifyScheme({ requests: [request], secret: verifying, nowSeconds: NOW }).matches).toMatchObject(
      [{ scheme: asymmetric }],
    );
  });
});

describe("HTTP Message Signatures, RFC 9421", () => {
  it("verifies the example of appendix B.2.6, which does not cover the body, only if that is allowed", () => {
    // The key of appendix B.1.4, and the signature of the request of B.2; the covered components lack Content-Digest.
    const key = "MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=";
    const headers = {
      Host: "example.com",
      Date: "Tue, 20 Apr 2021 02:07:55 GMT",
      "Content-Type": "application/json",
      "Content-Digest":
        "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:",
      "Content-Length": "18",
      "Signature-Input":
        'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"',
      Signature:
        "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
    };
    const sent = {
      scheme: { form: "http-message", algorithm: "ed25519", secretFormat: "spki" },
      secret: key,
      headers,
      body: Buffer.from('{"hello": "world"}'),
      url: "https://example.com/foo",
      query: "param=Value&Pet=dog",
      now: 1_618_884_475,
    };
    // Only the content digest prevents an exchange of the body, so the scheme requires it.
    expect(verdictOn(sent)).toEqual(refused("signature_malformed"));
  });

  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const secret = publicKey.export({ format: "der", type: "spki" }).toString("base64");
  const scheme = {
    form: "http-message",
    algorithm: "ed25519",
    secretFormat: "spki",
    components: ["content-digest", "@method", "@target-uri"],
  };
  const signTheirs = async (
    fields: string[],
    options: { created?: number; expires?: number; body?: Buffer } = {},
  ) => {
    const { created = NOW, expires, body = BODY } = options;
    const message = {
      method: "POST",
      url: `${ENDPOINT_URL}?a=1`,
      headers: {
        "content-type": "application/json",
        "content-digest": `sha-256=:${hash("sha256", body, "base64")}:`,
      },
    };
    const made = await httpbis.signMessage(
      {
        key: createSigner(privateKey, "ed25519", "k1"),
        fields,
        params: ["created", "keyid", "alg", ...(expires === undefined ? [] : ["expires"])],
        paramValues: {
          created: new Date(created * 1_000),
          ...(expires !== undefined && { expires: new Date(expires * 1_000) }),
        },
      },
      message,
    );
    return made.headers as Record<string, string>;
  };
  const all = ["@method", "@target-uri", "content-type", "content-digest"];

  it("verify when the library created them, but not after any change", async () => {
    const headers = await signTheirs(all);
    const sent = { scheme, secret, headers, query: "a=1" };
    expect(verdictOn(sent)).toEqual(accepted);
    expect(verdictOn({ ...sent, body: Buffer.from("{}") })).toEqual(refused("body_mismatch"));
    expect(verdictOn({ ...sent, query: "a=2" })).toEqual(refused("signature_mismatch"));
    expect(verdictOn({ ...sent, url: "https://other.example/" })).toEqual(refused("signature_mismatch"));
    expect(verdictOn({ ...sent, now: NOW + 301 })).toEqual(refused("timestamp_outside_tolerance"));
    const digest = `sha-256=:${hash("sha256", "{}", "base64")}:`;
    expect(
      verdictOn({ ...sent, headers: { ...headers, "content-digest": digest }, body: Buffer.from("{}") }),
    ).toEqual(refused("signature_mismatch"));
    for (const header of Object.keys(headers)) {
      const { [header]: _left, ...others } = headers;
      expect(verdictOn({ ...sent, headers: others }).valid).toBe(false);
    }
  });

  it("must cover what the scheme requires, and not be expired", async () => {
    const sent = { scheme, secret, query: "a=1" };
    expect(verdictOn({ ...sent, headers: await signTheirs(["@method", "content-digest"]) })).toEqual(
      refused("signature_malformed"),
    );
    expect(verdictOn({ ...sent, headers: await signTheirs(all, { expires: NOW - 1 }) })).toEqual(
      refused("timestamp_outside_tolerance"),
    );
    expect(
      verdictOn({
        ...sent,
        headers: await signTheirs(all),
        scheme: { ...scheme, algorithm: "hmac-sha256", secretFormat: "utf8" },
      }).valid,
    ).toBe(false);
  });

  it("are identified", async () => {
    const sealed = Object.entries(await signTheirs(all));
    const request = {
      headersDistinct: Object.fromEntries(sealed.map(([name, value]) => [name.toLowerCase(), [value]])),
      body: BODY,
      target: "/webhooks/live?a=1",
    };
    const [best] = identifyScheme({
      requests: [request],
      secret,
      nowSeconds: NOW,
      url: ENDPOINT_URL,
    }).matches;
    expect(best?.scheme).toMatchObject({ form: "http-message", algorithm: "ed25519", components: all });
  });
});

describe("secrets without a signature", () => {
  const secret = "user:a password of some length";
  const basic = `Basic ${Buffer.from(secret).toString("base64")}`;
  const scheme = {
    form: "token",
    header: "authorization",
    prefix: "Basic ",
    encoding: "base64",
    acceptUnsignedBodies: true,
  };

  it("are compared, with a warning", () => {
    const verifier = loadVerifier({ scheme: loadScheme(JSON.stringify(scheme)), secrets: [secret] });
    expect(verifier.warnings.join()).toMatch(/does not sign the body/);
    expect(verdictOn({ scheme, secret, headers: { Authorization: basic } })).toEqual(accepted);
    for (const wrong of [basic.slice(0, -4), `${basic}AAAA`, "Basic ", secret, basic.toLowerCase()])
      expect(verdictOn({ scheme, secret, headers: { Authorization: wrong } }).valid).toBe(false);
    const bare = { form: "token", header: "x-gitlab-token", acceptUnsignedBodies: true };
    expect(verdictOn({ scheme: bare, secret, headers: { "X-Gitlab-Token": secret } })).toEqual(accepted);
    expect(verdictOn({ scheme: bare, secret, headers: { "X-Gitlab-Token": `${secret} ` } }).valid).toBe(
      false,
    );
  });

  it("are identified last", () => {
    const request = { headersDistinct: { authorization: [basic] }, body: BODY };
    expect(identifyScheme({ requests: [request], secret, nowSeconds: NOW }).matches).toMatchObject([
      { scheme },
    ]);
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
