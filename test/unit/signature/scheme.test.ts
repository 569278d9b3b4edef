import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { checkScheme } from "../../../src/signature/verifier.ts";
import { PRESETS } from "../../../src/signature/scheme.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";

const SECRET = "0123456789abcdef0123456789abcdef";
const load = (fields: object) => loadScheme(JSON.stringify(fields));
const timestamped = { header: "x-sig", signed: "{timestamp}.{body}", timestamp: { header: "x-time" } };
const listed = { header: "x-sig", separator: ",", signed: "{timestamp}.{body}" };

it("adds the defaults of a scheme", () => {
  expect(load({ header: "X-Sig" })).toEqual({
    algorithm: "hmac-sha256",
    encoding: "hex",
    header: "x-sig",
    lead: "",
    prefix: "",
    prefixOn: "each",
    separator: "",
    signed: "{body}",
    timestamp: null,
    idHeader: null,
    secretFormat: "utf8",
    toleranceSeconds: 300,
  });
});

it("accepts every preset by its name, ignoring spaces around it", () => {
  for (const name of Object.keys(PRESETS)) expect(loadScheme(` ${name}\n`)).toHaveProperty("header");
});

it("lists the presets when a name is unknown, even a name that every object has", () => {
  for (const name of ["strip", "constructor", "__proto__", ""]) {
    expect(() => loadScheme(name)).toThrow(ConfigurationError);
  }
  expect(checkScheme("strip", [SECRET])).toEqual([
    expect.stringMatching(
      /^There is no webhook scheme of that name\. Name one of standard-webhooks, stripe, hmac-hex/,
    ),
  ]);
});

describe("refuses a scheme", () => {
  const unsafe: [string, object, RegExp][] = [
    [
      "that signs no body",
      { header: "x-sig", signed: "constant" },
      /signed: must hold \{body\} exactly once, not 0/,
    ],
    ["that signs the body twice", { header: "x-sig", signed: "{body}{body}" }, /exactly once, not 2/],
    [
      "with a misspelt placeholder",
      { header: "x-sig", signed: "{bdy}{body}" },
      /unknown placeholder \{bdy\}/,
    ],
    ["with an empty placeholder", { header: "x-sig", signed: "{}{body}" }, /unknown placeholder \{\}/],
    ["with a placeholder that is not closed", { header: "x-sig", signed: "{timestamp.{body}" }, /stray "\{"/],
    ["with a body that is not closed", { header: "x-sig", signed: "{body" }, /stray "\{"/],
    ["with a closing brace too many", { header: "x-sig", signed: "{body}}" }, /stray "\}"/],
    ["with letters whose bytes depend on an encoding", { header: "x-sig", signed: "é{body}" }, /ASCII/],
    [
      "with a hash of the body that is broken",
      { header: "x-sig", signed: "{body:md5:hex}" },
      /unknown placeholder/,
    ],
    [
      "that signs the body and its hash",
      { header: "x-sig", signed: "{body}{body:sha256:hex}" },
      /exactly once, not 2/,
    ],
    [
      "that signs the header of the signature",
      { header: "x-sig", signed: "{header:X-Sig}.{body}" },
      /carries the signature/,
    ],
    [
      "with two values that nothing parts",
      { header: "x-sig", signed: "{header:a}{header:b}.{body}" },
      /nothing tells it/,
    ],
    [
      "with a value that nothing parts from the end of the body",
      { header: "x-sig", signed: "{body}{header:a}" },
      /nothing tells it/,
    ],
    [
      "with the prefix once, where there is one signature only",
      { header: "x-sig", prefix: "v0=", prefixOn: "first" },
      /needs a prefix and a separator/,
    ],
    ["of RSA with a shared secret", { header: "x-sig", algorithm: "rsa-sha256" }, /must be one of spki/],
    [
      "that signs a timestamp from nowhere",
      { header: "x-sig", signed: "{timestamp}{body}" },
      /names no source/,
    ],
    ["that signs an id from nowhere", { header: "x-sig", signed: "{id}{body}" }, /idHeader names no source/],
    ["whose timestamp is not signed", { header: "x-sig", timestamp: { header: "x-time" } }, /is not signed/],
    ["whose id is not signed", { header: "x-sig", idHeader: "x-id" }, /\{id\} is not signed/],
    ["without a header", { signed: "{body}" }, /header/],
    ["with a header that is none", { header: "x sig" }, /must be the name of a header/],
    ["with a field it does not know", { header: "x-sig", headr: "x" }, /headr/],
    ["with no tolerance", { ...timestamped, toleranceSeconds: 0 }, /toleranceSeconds/],
    ["with a tolerance beyond a day", { ...timestamped, toleranceSeconds: 86_401 }, /toleranceSeconds/],
    ["with part of a second as tolerance", { ...timestamped, toleranceSeconds: 1.5 }, /toleranceSeconds/],
    ["with an algorithm that is broken", { header: "x-sig", algorithm: "hmac-md5" }, /algorithm/],
    [
      "with a timestamp part in a header of one part",
      { ...listed, separator: "", timestamp: { part: "t=" } },
      /separator/,
    ],
    [
      "whose parts cannot be distinguished",
      { ...listed, prefix: "t", timestamp: { part: "t=" } },
      /cannot be distinguished/,
    ],
    [
      "whose prefix holds the separator",
      { ...listed, prefix: "v1,", timestamp: { part: "t=" } },
      /holds the separator/,
    ],
    [
      "with two sources for the timestamp",
      { ...listed, timestamp: { part: "t=", header: "x-time" } },
      /timestamp/,
    ],
    [
      "that uses one header for two things",
      { ...timestamped, timestamp: { header: "X-Sig" } },
      /used for two things/,
    ],
    ["of ed25519 with a shared secret", { header: "x-sig", algorithm: "ed25519" }, /secretFormat/],
    ["of a shared secret with a public key", { header: "x-sig", secretFormat: "whpk" }, /secretFormat/],
  ];
  it.each(unsafe)("%s", (_what, fields, message) => {
    expect(() => load(fields)).toThrow(ConfigurationError);
    expect(() => load(fields)).toThrow(message);
  });

  it("that starts like JSON but is not", () => {
    expect(() => loadScheme("{header: x-sig}")).toThrow("starts like JSON");
  });

  it("and lists all its problems together", () => {
    expect(checkScheme('{"header":"x-sig","signed":"{id}{timestamp}"}', [])).toHaveLength(3);
  });
});

describe("secrets", () => {
  const problemsOf = (scheme: string, secrets: string[]) => checkScheme(scheme, secrets);
  const hexScheme = '{"header":"x-sig","secretFormat":"hex"}';
  const base64Scheme = '{"header":"x-sig","secretFormat":"base64"}';

  it.each([
    ["an empty text", "github", [""], /secret 1 is empty/],
    ["a blank text", "github", ["  "], /secret 1 is empty/],
    ["an empty key after the prefix", "standard-webhooks", ["whsec_"], /secret 1 is empty/],
    ["the same text twice", "github", [SECRET, SECRET], /secret 2 is the same as secret 1/],
    [
      "the same key in two spellings",
      "standard-webhooks",
      ["whsec_plJ3nmyCDGBKInavdOK15jsl", "plJ3nmyCDGBKInavdOK15jsl"],
      /secret 2 is the same/,
    ],
    ["hex of odd length", hexScheme, ["abc"], /secret 1 is not hex/],
    ["hex with a wrong letter", hexScheme, [`${SECRET}0g`], /secret 1 is not hex/],
    ["base64 with junk", base64Scheme, ["AAAA AAAA"], /secret 1 is not base64/],
    ["base64 of the URL alphabet", base64Scheme, ["-_-_"], /secret 1 is not base64/],
    ["a letter again and again", "github", ["a".repeat(32)], /repeats the same 1 of 32 bytes/],
    ["four letters again and again", "github", ["abcd".repeat(8)], /repeats the same 4 of 32/],
    ["zeros in hex", hexScheme, ["0".repeat(64)], /repeats the same 1 of 32/],
    ["a whsec that is no base64", "standard-webhooks", ["whsec_not!base64"], /secret 1 is not base64 after/],
    ["a public key of a wrong length", "standard-webhooks-ed25519", ["whpk_AAAA"], /has 3 bytes/],
    [
      "a private key where the public one belongs",
      "standard-webhooks-ed25519",
      ["whsk_AAAA"],
      /not base64 after/,
    ],
  ])("refuses %s", (_what, scheme, secrets, message) => {
    expect(problemsOf(scheme, secrets).join("\n")).toMatch(message);
  });

  it("are never shown in a problem", () => {
    expect(problemsOf(hexScheme, ["canary!", "canary!"]).join("\n")).not.toContain("canary");
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
        expect(problemsOf(scheme, [secret, `whsec_${secret}`.slice(0, -1)])).toEqual([]);
      }
    }
  });

  it("are accepted in their compatibility form if the sender does so", () => {
    const twin = (text: string) => ["sécret ﬁ, long enough", text.normalize("NFKD")];
    expect(problemsOf("easypost", twin("sécret ﬁ, long enough")).join()).toMatch(
      /secret 2 is the same as secret 1/,
    );
    expect(problemsOf("github", twin("sécret ﬁ, long enough"))).toEqual([]);
  });
});

it("refuses a scheme that signs the address when none is configured, or an invalid one", () => {
  const scheme = loadScheme("square");
  expect(() => loadVerifier({ scheme, secrets: [SECRET] })).toThrow("no public address is configured");
  expect(() => loadVerifier({ scheme, secrets: [SECRET], url: "https://é" })).toThrow("is not an address");
  expect(loadVerifier({ scheme, secrets: [SECRET], url: "https://a.test/hook" }).warnings).toEqual([]);
});
