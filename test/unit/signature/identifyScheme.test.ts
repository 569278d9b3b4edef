import { hash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { identifyScheme } from "../../../src/signature/identify/identifyScheme.ts";
import { PRESETS } from "../../../src/signature/presets.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import type { Scheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { captureSigned, ENDPOINT_URL, makeSecrets, templateScheme } from "../../support/signing/signing.ts";

const NOW = 1_790_000_000;
const BODY = Buffer.from('{"id":"evt_1","type":"order.picked_up","data":{"city":"Köln"}}');
const OTHER_BODY = Buffer.from('{"id":"evt_2","type":"order.delivered","data":{"city":"Zürich"}}');
const KEY = Buffer.from("thirty-two bytes of a good key!!");

function capture(scheme: Scheme, options: { signedAt?: number; body?: Buffer; id?: string } = {}) {
  const { signing, verifying } = makeSecrets(scheme, KEY);
  const { body = BODY, signedAt = NOW, id = "evt_1" } = options;
  const request = captureSigned(scheme, signing, { id, body, nowSeconds: signedAt });
  // The signed address is the called one.
  const signsQuery = scheme.form === "template" && scheme.signed.includes("?bodySHA256=");
  const target = signsQuery ? `${request.target}?bodySHA256=${hash("sha256", body)}` : request.target;
  return { request: { ...request, target }, secret: verifying };
}

const identify = (taken: ReturnType<typeof capture>, url: string | undefined = ENDPOINT_URL) =>
  identifyScheme({ requests: [taken.request], secret: taken.secret, nowSeconds: NOW, url });

const verifies = (setting: string, taken: ReturnType<typeof capture>) =>
  loadVerifier({ scheme: loadScheme(setting), secrets: [taken.secret], url: ENDPOINT_URL }).verify({
    ...taken.request,
    query: taken.request.target?.split("?")[1],
    nowSeconds: NOW,
  }).valid;

describe("identifying a scheme", () => {
  it.each(Object.keys(PRESETS))("names the preset %s from a request signed with it", (preset) => {
    const found = identify(capture(loadScheme(preset)));
    expect(found.matches.map(({ setting }) => setting)).toEqual([preset]);
  });

  it.each(Object.keys(PRESETS))("identifies %s under headers with other names", (preset) => {
    const known = templateScheme(preset);
    const renamed: Scheme = {
      ...known,
      header: "x-delivery-signature",
      timestamp:
        known.timestamp && "header" in known.timestamp
          ? { ...known.timestamp, header: "x-delivery-time" }
          : known.timestamp,
      idHeader: known.idHeader === null ? null : "x-delivery-id",
    };
    const taken = capture(renamed);
    const [best] = identify(taken).matches;
    expect(verifies(best?.setting ?? "", taken)).toBe(true);
    const later = capture(renamed, { id: "evt_2", body: OTHER_BODY });
    expect(verifies(best?.setting ?? "", later)).toBe(true);
  });

  it("finds a digest and a secret format that differ from the preset's", () => {
    const scheme = { ...templateScheme("github"), algorithm: "hmac-sha512", secretFormat: "hex" } as const;
    const [best] = identify(capture(scheme)).matches;
    expect(loadScheme(best?.setting ?? "")).toEqual(scheme);
  });

  it("reports the age of a request however old it is, within and beyond the tolerance", () => {
    const scheme = loadScheme("stripe");
    for (const ageSeconds of [0, 299, 301, 86_400 * 30, -40]) {
      const [best] = identify(capture(scheme, { signedAt: NOW - ageSeconds })).matches;
      expect(best).toMatchObject({ setting: "stripe", ageSeconds, toleranceSeconds: 300 });
    }
  });

  it("infers the unit of a signed time from its text", () => {
    for (const unit of ["s", "ms", "iso", "http"] as const) {
      const scheme: Scheme = { ...templateScheme("slack"), timestamp: { header: "x-sent-time", unit } };
      const [best] = identify(capture(scheme, { signedAt: NOW - 90 })).matches;
      expect(best?.ageSeconds).toBe(90);
      expect(templateScheme(best?.setting ?? "").timestamp).toEqual({ header: "x-sent-time", unit });
    }
  });

  it("verifies the first request's candidates on a second one, and drops those that fail", () => {
    const scheme = templateScheme({
      header: "x-sig",
      encoding: "base64",
      signed: "{timestamp}.{body}",
      timestamp: { header: "x-at" },
    });
    const [first, second, stranger] = [
      capture(scheme),
      capture(scheme, { body: OTHER_BODY, signedAt: NOW + 5 }),
      capture(loadScheme("github")),
    ];
    const prove = (other: typeof first) =>
      identifyScheme({ requests: [first.request, other.request], secret: first.secret, nowSeconds: NOW });
    expect(prove(second).matches).toMatchObject([{ scheme, requests: 2 }]);
    expect(prove(stranger).matches).toEqual([]);
  });

  it("names the fields that it searched when nothing fits", () => {
    const noisy = capture(loadScheme("github"));
    const { host, "x-hub-signature-256": signature } = noisy.request.headersDistinct;
    // With few headers, the search is short.
    const headersDistinct = { host, "x-hub-signature-256": signature };
    const taken = { ...noisy, request: { ...noisy.request, headersDistinct } };
    expect(identify({ ...taken, secret: "another secret" })).toMatchObject({
      matches: [],
      lookedAt: ["x-hub-signature-256"],
    });
    const changed = { ...taken.request, body: Buffer.concat([BODY, Buffer.from(" ")]) };
    expect(identify({ ...taken, request: changed }).matches).toEqual([]);
  });

  it("finds a scheme that signs the endpoint's address only when the address is given", () => {
    const taken = capture(loadScheme("square"));
    expect(
      identifyScheme({ requests: [taken.request], secret: taken.secret, nowSeconds: NOW }).matches,
    ).toEqual([]);
    expect(identify(taken).matches).toMatchObject([{ setting: "square", signsUrl: true }]);
  });

  it("never accepts an unsigned request or an empty secret", () => {
    const unsigned = {
      target: undefined,
      headersDistinct: { host: ["shop.example"], "x-request-id": ["r-1"] },
      body: BODY,
    };
    expect(identify({ request: unsigned, secret: "s" })).toMatchObject({ matches: [], lookedAt: [] });
    expect(identify({ ...capture(loadScheme("github")), secret: "" }).matches).toEqual([]);
  });
});
