import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { distinct, makeSecrets } from "../../support/signing/signing.ts";

const NOW = 1_700_000_000;
/** Its signature in base64 has a character that base64url does not have. */
const BODY = Buffer.from('{"id":"evt_3"}');
const SECRETS = ["first secret of the test", "second secret of the test"];

const hmac = (secret: string, text: string | Buffer) => createHmac("sha256", secret).update(text).digest();
const hex = (secret: string, text: string | Buffer) => hmac(secret, text).toString("hex");

function verifyWith(
  fields: object | string,
  headers: Record<string, string | string[]>,
  nowSeconds = NOW,
  body = BODY,
) {
  const scheme = loadScheme(typeof fields === "string" ? fields : JSON.stringify(fields));
  const headersDistinct = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, typeof value === "string" ? [value] : value]),
  );
  return loadVerifier({ scheme, secrets: SECRETS }).verify({ headersDistinct, body, nowSeconds });
}

const plain = { header: "x-sig" };
const base64 = { header: "x-sig", encoding: "base64" };
const base64url = { header: "x-sig", encoding: "base64url" };
const list = { header: "x-sig", prefix: "v0=", separator: "," };
const full = {
  header: "x-sig",
  signed: "{id}.{timestamp}.{body}",
  timestamp: { header: "x-time" },
  idHeader: "x-id",
};
const signFull = (id: string, time: string) => ({
  "x-id": id,
  "x-time": time,
  "x-sig": hex(SECRETS[0]!, Buffer.concat([Buffer.from(`${id}.${time}.`, "latin1"), BODY])),
});
const good = hex(SECRETS[0]!, BODY);
const mac64 = hmac(SECRETS[0]!, BODY).toString("base64");
const mac64url = mac64.replace("=", "").replaceAll("+", "-").replaceAll("/", "_");
/** The character that ends in the same byte. */
const WIDE = (digit: string) => String.fromCharCode(digit.charCodeAt(0) + 0x100);
const accepted = (secretIndex = 0, id: string | null = null) => ({ valid: true, secretIndex, id });
const refused = (reason: string) => ({ valid: false, reason });

it("returns the secret that matched", () => {
  expect(verifyWith(plain, { "x-sig": good })).toEqual(accepted(0));
  expect(verifyWith(plain, { "x-sig": hex(SECRETS[1]!, BODY) })).toEqual(accepted(1));
  expect(verifyWith(plain, { "x-sig": hex("another secret", BODY) })).toEqual(refused("signature_mismatch"));
});

describe("decodes a signature strictly", () => {
  it.each([
    ["hex in capitals", plain, good.toUpperCase(), true],
    ["hex and junk behind it", plain, `${good}zz`, false],
    ["hex and more hex behind it", plain, `${good}00`, false],
    ["hex with a letter that ends in the byte of a digit", plain, good.replace(/\d/, WIDE), false],
    ["half the hex", plain, good.slice(0, 32), false],
    ["nothing", plain, "", false],
    ["base64", base64, mac64, true],
    ["base64 without its padding", base64, mac64.replace("=", ""), true],
    ["base64 and junk behind it", base64, `${mac64}!!`, false],
    ["base64 with a space within", base64, mac64.replace(/^..../, "$& "), false],
    ["base64 padded twice", base64, `${mac64}=`, false],
    ["base64 whose last character has bits that decoding drops", base64, mac64.replace(/U=$/, "V="), false],
    ["base64url as base64", base64, mac64url, false],
    ["base64 as base64url", base64url, mac64, false],
    ["base64url", base64url, mac64url, true],
    ["base64url with padding", base64url, `${mac64url}=`, true],
    ["the digest of another length", { ...plain, algorithm: "hmac-sha512" }, good, false],
  ])("%s", (_what, scheme, signature, valid) => {
    expect(verifyWith(scheme, { "x-sig": signature }).valid).toBe(valid);
  });
});

describe("requires the prefix before each signature", () => {
  const wrong = hex("another secret", BODY);
  it.each([
    ["the good one last", `v0=${wrong},v0=${good}`, true],
    ["the good one without its prefix", `v0=${wrong},${good}`, false],
    ["another prefix", `v1=${good}`, false],
    ["the prefix twice", `v0=v0=${good}`, false],
    ["other versions beside it", `v2=${wrong},v0=${good},v9=x,`, true],
  ])("%s", (_what, header, valid) => {
    expect(verifyWith(list, { "x-sig": header }).valid).toBe(valid);
  });
});

it("checks eight signatures and refuses more", () => {
  const wrong = Array.from({ length: 7 }, (_, index) => `v0=${hex(`secret ${index}`, BODY)}`);
  const eight = [...wrong, `v0=${good}`].join(",");
  expect(verifyWith(list, { "x-sig": eight })).toEqual(accepted());
  expect(verifyWith(list, { "x-sig": `${eight},v0=${good}` })).toEqual(refused("too_many_signatures"));
});

describe("with public keys, whose checks take milliseconds for a long body", () => {
  const scheme = loadScheme("standard-webhooks-ed25519");
  const { signing, verifying } = makeSecrets(scheme, Buffer.alloc(0));
  const verifier = loadVerifier({ scheme, secrets: [verifying] });

  it("checks two signatures and refuses more", () => {
    const sign = makeSigner({ scheme, secrets: [signing] });
    const headers = sign({ id: "evt_1", body: BODY, nowSeconds: NOW });
    const verify = (others: number) => {
      const forged = Array.from(
        { length: others },
        (_, n) => `v1a,${Buffer.alloc(64, n).toString("base64")}`,
      );
      const signatures = [...forged, headers["webhook-signature"]].join(" ");
      const headersDistinct = distinct({ ...headers, "webhook-signature": signatures });
      return verifier.verify({ headersDistinct, body: BODY, nowSeconds: NOW });
    };
    expect(verify(1)).toEqual(accepted(0, "evt_1"));
    expect(verify(2)).toEqual(refused("too_many_signatures"));
  });
});

it("refuses a signature's header beyond 4096 characters", () => {
  const header = `v0=${good}`;
  expect(verifyWith(list, { "x-sig": header.padEnd(4_096, ",") })).toEqual(accepted());
  expect(verifyWith(list, { "x-sig": header.padEnd(4_097, ",") })).toEqual(refused("signature_malformed"));
});

describe("requires each header exactly once", () => {
  const headers = signFull("evt_1", String(NOW));
  it.each([
    ["signature", "x-sig"],
    ["timestamp", "x-time"],
    ["id", "x-id"],
  ] as const)("%s", (role, name) => {
    const { [name]: value, ...others } = headers;
    expect(verifyWith(full, others)).toEqual(refused(`${role}_missing`));
    expect(verifyWith(full, { ...others, [name]: [] })).toEqual(refused(`${role}_missing`));
    expect(verifyWith(full, { ...others, [name]: [value, value] })).toEqual(refused(`${role}_repeated`));
    expect(verifyWith(full, { ...others, [name]: ["other", value] })).toEqual(refused(`${role}_repeated`));
    expect(verifyWith(full, { ...others, [name]: "" })).toEqual(refused(`${role}_malformed`));
  });

  it("and a timestamp within the signature's header, too", () => {
    const scheme = { ...list, signed: "{timestamp}.{body}", timestamp: { part: "t=" } };
    const signature = `v0=${hex(SECRETS[0]!, `${NOW}.${BODY.toString()}`)}`;
    expect(verifyWith(scheme, { "x-sig": `t=${NOW},${signature}` })).toEqual(accepted());
    expect(verifyWith(scheme, { "x-sig": signature })).toEqual(refused("timestamp_missing"));
    const twice = { "x-sig": `t=${NOW},t=${NOW},${signature}` };
    expect(verifyWith(scheme, twice)).toEqual(refused("timestamp_repeated"));
  });
});

describe("compares the signing time with the clock", () => {
  it.each([
    [300, true],
    [301, false],
    [-300, true],
    [-301, false],
  ])("when it is %i s old", (ageSeconds, valid) => {
    const verdict = verifyWith(full, signFull("evt_1", String(NOW)), NOW + ageSeconds);
    expect(verdict).toEqual(valid ? accepted(0, "evt_1") : refused("timestamp_outside_tolerance"));
  });

  const around = [`${NOW}abc`, `${NOW}.9`, `0${NOW}`, ` ${NOW}`, `${NOW} `, `+${NOW}`, `-${NOW}`];
  const others = ["1.7e9", "0x6553f100", "Infinity", "NaN", "1700000000000000", "١٧٠٠٠٠٠٠٠٠"];
  it.each([...around, ...others])("refuses %j although it is signed", (time) => {
    expect(verifyWith(full, signFull("evt_1", time))).toEqual(refused("timestamp_malformed"));
  });

  it("in milliseconds", () => {
    const scheme = { ...full, timestamp: { header: "x-time", unit: "ms" } };
    const late = refused("timestamp_outside_tolerance");
    expect(verifyWith(scheme, signFull("e", `${NOW}999`), NOW + 300)).toEqual(accepted(0, "e"));
    expect(verifyWith(scheme, signFull("e", `${NOW - 1}999`), NOW + 300)).toEqual(late);
    expect(verifyWith(scheme, signFull("e", String(NOW)))).toEqual(late);
  });

  it("in ISO 8601, whose text is signed unchanged", () => {
    const scheme = { ...full, timestamp: { header: "x-time", unit: "iso" } };
    const late = refused("timestamp_outside_tolerance");
    for (const time of ["2023-11-14T22:13:20Z", "2023-11-14T23:13:20.000+01:00"]) {
      expect(verifyWith(scheme, signFull("e", time), NOW + 300)).toEqual(accepted(0, "e"));
      expect(verifyWith(scheme, signFull("e", time), NOW + 301)).toEqual(late);
    }
    for (const time of ["2023-11-14 22:13:20", "2023-11-14T22:13:20", String(NOW), "yesterday"]) {
      expect(verifyWith(scheme, signFull("e", time))).toEqual(refused("timestamp_malformed"));
    }
  });
});

describe("refuses an id that makes the signed bytes ambiguous", () => {
  it.each(["evt.1", ".", "e".repeat(257), "evt\n1", "evt\u{131}"])("%j", (id) => {
    expect(verifyWith(full, signFull(id, String(NOW)))).toEqual(refused("id_malformed"));
  });

  it("but accepts one of 256 characters, and one in UTF-8 as Node delivers it", () => {
    for (const id of ["e".repeat(256), Buffer.from("évt", "utf8").toString("latin1")]) {
      expect(verifyWith(full, signFull(id, String(NOW)))).toEqual(accepted(0, id));
    }
  });

  it("directly before the body, whose brace then ends it", () => {
    const scheme = JSON.stringify({ ...full, signed: "{timestamp}.{id}{body}" });
    const sign = makeSigner({ scheme: loadScheme(scheme), secrets: [SECRETS[0]!] });
    const headers = sign({ id: "evt_1", body: BODY, nowSeconds: NOW });
    expect(verifyWith(scheme, headers)).toEqual(accepted(0, "evt_1"));
    // The same bytes are signed.
    const moved = [{ ...headers, "x-id": "evt_" }, NOW, Buffer.concat([Buffer.from("1"), BODY])] as const;
    expect(verifyWith(scheme, ...moved)).toEqual(refused("id_malformed"));
  });

  it("where another character is the separator, only that one counts", () => {
    const scheme = loadScheme(JSON.stringify({ ...full, signed: "{id}:{timestamp}:{body}" }));
    const sign = makeSigner({ scheme, secrets: [SECRETS[0]!] });
    const verify = (id: string) => verifyWith(scheme, sign({ id, body: BODY, nowSeconds: NOW }));
    expect(verify("evt.1")).toEqual(accepted(0, "evt.1"));
    expect(verify("evt:1")).toEqual(refused("id_malformed"));
  });
});

it("signs bytes, not text: an invalid UTF-8 body and a byte order mark are kept", () => {
  for (const body of [Buffer.from([0xff, 0xfe, 0x00]), Buffer.from("\uFEFF{}"), Buffer.alloc(0)]) {
    expect(verifyWith(plain, { "x-sig": hex(SECRETS[0]!, body) }, NOW, body)).toEqual(accepted());
  }
  const [bytes, replaced] = [Buffer.from([0xff]), Buffer.from("\ufffd")];
  expect(verifyWith(plain, { "x-sig": hex(SECRETS[0]!, bytes) }, NOW, replaced).valid).toBe(false);
});
