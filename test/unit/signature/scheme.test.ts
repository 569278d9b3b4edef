import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { checkScheme, loadVerifier } from "../../../src/signature/verifier.ts";

const SECRET = "0123456789abcdef0123456789abcdef";
const load = (fields: object) => loadScheme(JSON.stringify({ header: "x-sig", ...fields }));
const signed = "{timestamp}.{body}";
const timestamp = { header: "x-time" };
const part = { part: "t=" };

it("accepts a preset by its name, and lists them when a name is unknown, even one that every object has", () => {
  expect(loadScheme(" stripe\n")).toEqual(loadScheme("stripe"));
  for (const name of ["strip", "constructor", "__proto__", ""])
    expect(() => loadScheme(name)).toThrow(ConfigurationError);
  const listed = /^There is no webhook scheme of that name\. Name one of standard-webhooks, stripe, hmac-hex/;
  expect(checkScheme("strip", [SECRET])).toEqual([expect.stringMatching(listed)]);
});

it.each<[object, RegExp]>([
  [{ signed: "constant" }, /signed: must hold \{body\} exactly once, not 0/],
  [{ signed: "{body}{body}" }, /exactly once, not 2/],
  [{ signed: "{bdy}{body}" }, /unknown placeholder \{bdy\}/],
  [{ signed: "{timestamp.{body}" }, /stray "\{"/],
  [{ signed: "{body}}" }, /stray "\}"/],
  [{ signed: "é{body}" }, /ASCII/],
  [{ signed: "{id}{id}.{body}" }, /nothing tells it/],
  [{ signed: "{body}{id}" }, /nothing tells it/],
  [{ algorithm: "rsa-sha256" }, /algorithm/],
  [{ algorithm: "ed25519" }, /secretFormat/],
  [{ secretFormat: "whpk" }, /secretFormat/],
  [{ signed }, /names no source/],
  [{ signed: "{id}{body}" }, /idHeader names no source/],
  [{ timestamp }, /is not signed/],
  [{ idHeader: "x-id" }, /\{id\} is not signed/],
  [{ header: undefined, signed: "{body}" }, /header/],
  [{ header: "x sig" }, /must be the name of a header/],
  [{ headr: "x" }, /headr/],
  [{ signed, timestamp, toleranceSeconds: 0 }, /toleranceSeconds/],
  [{ signed, timestamp, toleranceSeconds: 86_401 }, /toleranceSeconds/],
  [{ signed, timestamp, toleranceSeconds: 1.5 }, /toleranceSeconds/],
  [{ signed, timestamp: { header: "X-Sig" } }, /used for two things/],
  [{ signed, separator: "", timestamp: part }, /separator/],
  [{ signed, separator: ",", prefix: "t", timestamp: part }, /cannot be distinguished/],
  [{ signed, separator: ",", prefix: "v1,", timestamp: part }, /holds the separator/],
  [{ signed, separator: ",", timestamp: { ...part, ...timestamp } }, /timestamp/],
])("refuses the scheme %j: %s", (fields, message) => {
  expect(() => load(fields)).toThrow(ConfigurationError);
  expect(() => load(fields)).toThrow(message);
});

it("refuses what starts like JSON but is not, and lists all problems of a scheme together", () => {
  expect(() => loadScheme("{header: x-sig}")).toThrow("starts like JSON");
  expect(checkScheme('{"header":"x-sig","signed":"{id}{timestamp}"}', [])).toHaveLength(3);
});

describe("secrets", () => {
  const hexScheme = '{"header":"x-sig","secretFormat":"hex"}';
  const base64Scheme = '{"header":"x-sig","secretFormat":"base64"}';
  const standard = "standard-webhooks";

  it.each([
    ["github", [""], /secret 1 is empty/],
    [standard, ["whsec_"], /secret 1 is empty/],
    ["github", [SECRET, SECRET], /secret 2 is the same as secret 1/],
    [standard, ["whsec_plJ3nmyCDGBKInavdOK15jsl", "plJ3nmyCDGBKInavdOK15jsl"], /secret 2 is the same/],
    [hexScheme, ["abc"], /secret 1 is not hex/],
    [hexScheme, [`${SECRET}0g`], /secret 1 is not hex/],
    [base64Scheme, ["AAAA AAAA"], /secret 1 is not base64/],
    [base64Scheme, ["-_-_"], /secret 1 is not base64/],
    ["github", ["a".repeat(32)], /repeats the same 1 of 32 bytes/],
    ["github", ["abcd".repeat(8)], /repeats the same 4 of 32/],
    [standard, ["whsec_not!base64"], /secret 1 is not base64 after/],
    ["standard-webhooks-ed25519", ["whpk_AAAA"], /has 3 bytes/],
    ["standard-webhooks-ed25519", ["whsk_AAAA"], /not base64 after/],
  ])("for %s are refused when they are %j: %s", (scheme, secrets, message) => {
    expect(checkScheme(scheme, secrets).join("\n")).toMatch(message);
  });

  it("are at most four: each costs a hash of the body", () => {
    const secrets = [1, 2, 3, 4, 5].map((number) => `a secret that is number ${number}`);
    expect(checkScheme("github", secrets.slice(0, 4))).toEqual([]);
    expect(checkScheme("github", secrets).join()).toMatch(/There are 5 webhook secrets; at most 4/);
  });

  it("are never shown in a problem", () => {
    expect(checkScheme(hexScheme, ["canary!", "canary!"]).join("\n")).not.toContain("canary");
  });

  it("cause a warning under 16 bytes, counted after decoding", () => {
    const warningsOf = (scheme: string, secret: string) =>
      loadVerifier({ scheme: loadScheme(scheme), secrets: [secret] }).warnings;
    expect(warningsOf("github", SECRET.slice(0, 16))).toEqual([]);
    expect(warningsOf("github", SECRET.slice(0, 15))).toEqual([
      "secret 1 has only 15 bytes; at least 16 are advised",
    ]);
    expect(warningsOf("onfleet", SECRET.slice(0, 30))).toHaveLength(1);
    // The key in Svix's own documentation has 18 bytes, below the 24 of the specification.
    expect(warningsOf("svix", "whsec_plJ3nmyCDGBKInavdOK15jsl")).toEqual([]);
  });

  it("may lack padding and have stray bits, like those of the reference libraries", () => {
    for (const secret of ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBr"]) {
      for (const scheme of ["standard-webhooks", "svix"]) {
        expect(checkScheme(scheme, [secret, `whsec_${secret}`.slice(0, -1)])).toEqual([]);
      }
    }
  });
});

it("refuses a scheme that signs the address when none is configured, or an invalid one", () => {
  const scheme = loadScheme("square");
  expect(() => loadVerifier({ scheme, secrets: [SECRET] })).toThrow("no public address is configured");
  expect(() => loadVerifier({ scheme, secrets: [SECRET], url: "https://é" })).toThrow("is not an address");
  expect(loadVerifier({ scheme, secrets: [SECRET], url: "https://a.test/hook" }).warnings).toEqual([]);
});
