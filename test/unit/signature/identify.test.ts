import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import recordedSenders from "../../support/signing/recordedSenders.json" with { type: "json" };
import { identifyScheme, type CapturedRequest } from "../../../src/signature/identify.ts";
import { PRESETS, loadScheme, parseScheme, type Scheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import {
  capture,
  captureSigned,
  distinct,
  ENDPOINT_URL,
  makeSecrets,
} from "../../support/signing/signing.ts";

const NOW = 1_790_000_000;

const BODY = Buffer.from('{"id":"evt_1","type":"order.picked_up","data":{"city":"Köln"}}');
const OTHER_BODY = Buffer.from('{"id":"evt_2","type":"order.delivered","data":{"city":"Zürich"}}');
const KEY = Buffer.from("thirty-two bytes of a good key!!");

interface Case {
  readonly secret: string;
  readonly request: CapturedRequest;
  readonly now: number;
  readonly url: string | undefined;
}

const identify = ({ request, secret, now, url }: Case, others: readonly CapturedRequest[] = []) =>
  identifyScheme({ requests: [request, ...others], secret, nowSeconds: now, url });

function verifies(setting: string, { secret, request, now, url }: Case): boolean {
  const scheme = { ...loadScheme(setting), toleranceSeconds: 600 };
  return loadVerifier({ scheme, secrets: [secret], url }).verify({ ...request, nowSeconds: now }).valid;
}

interface Recorded {
  readonly secret: string;
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly at?: number;
}
const { at: recordedAt, url } = recordedSenders;
const recorded = recordedSenders.suites.flatMap(({ name, library, requests }) =>
  (requests as unknown as Recorded[]).map(({ secret, headers, body, at: now = recordedAt }) => {
    const request = { headersDistinct: distinct(headers), body: Buffer.from(body) };
    return { suite: `${name} (${library})`, secret, now, url, request };
  }),
);

it("finds the scheme of 80 of 100 valid requests of senders' libraries, and claims no wrong one", () => {
  let found = 0;
  const wrong: string[] = [];
  const suites = new Set<string>();
  const settingsOf = (of: Case) => identify(of).matches.map(({ setting }) => setting);
  for (const each of recorded) {
    const { suite, request, secret } = each;
    const settings = settingsOf(each);
    if (settings.length > 0) found += 1;
    // What it claims verifies this request, and no other body.
    const changed = { ...each, request: { ...request, body: Buffer.from('{"forged":true}') } };
    if (settings.some((setting) => !verifies(setting, each) || verifies(setting, changed))) wrong.push(suite);
    // Nothing signed the changed body, nor with another secret: one request of each sender.
    const stranger = { ...each, secret: `${secret.slice(0, -4)}AAAA` };
    if (!suites.has(suite) && [changed, stranger].some((other) => settingsOf(other).length > 0))
      wrong.push(`${suite}, forged`);
    suites.add(suite);
  }
  expect(wrong).toEqual([]);
  expect(found / recorded.length).toBeGreaterThanOrEqual(0.8);
});

function take(scheme: Scheme, options: { signedAt?: number; body?: Buffer; id?: string } = {}): Case {
  const { signing, verifying } = makeSecrets(scheme, KEY);
  const { body = BODY, signedAt = NOW, id = "evt_1" } = options;
  const request = captureSigned(scheme, signing, { id, body, nowSeconds: signedAt });
  return { secret: verifying, request, now: NOW, url: ENDPOINT_URL };
}

describe("identifying a scheme", () => {
  it.each(Object.keys(PRESETS))("names the preset %s, and finds it under other headers", (preset) => {
    const known = loadScheme(preset);
    expect(identify(take(known)).matches.map(({ setting }) => setting)).toEqual([preset]);
    const time = known.timestamp;
    const renamed: Scheme = {
      ...known,
      header: "x-delivery-signature",
      timestamp: time && "header" in time ? { ...time, header: "x-delivery-time" } : time,
      idHeader: known.idHeader === null ? null : "x-delivery-id",
    };
    const [first, second, third] = [BODY, OTHER_BODY, Buffer.from('{"third":3}')].map((body, place) =>
      take(renamed, { body, id: `evt_${place}`, signedAt: NOW - place }),
    );
    const [best] = identify(first!, [second!.request]).matches;
    expect(best).toMatchObject({ preset: null, requests: 2, field: "x-delivery-signature" });
    expect(verifies(best!.setting, third!)).toBe(true);
  });

  it("reports the age of a request however old it is, and infers the unit of its time", () => {
    for (const ageSeconds of [0, 299, 301, 86_400 * 30, -40]) {
      const [best] = identify(take(loadScheme("stripe"), { signedAt: NOW - ageSeconds })).matches;
      expect(best).toMatchObject({ setting: "stripe", ageSeconds, scheme: { toleranceSeconds: 300 } });
    }
    for (const unit of ["s", "ms", "iso"] as const) {
      const scheme: Scheme = { ...loadScheme("slack"), timestamp: { header: "x-sent-time", unit } };
      const [best] = identify(take(scheme, { signedAt: NOW - 90 })).matches;
      expect(best).toMatchObject({ ageSeconds: 90, scheme: { timestamp: scheme.timestamp } });
    }
  });

  it("drops what does not verify a second request", () => {
    const scheme = parseScheme({
      header: "x-sig",
      encoding: "base64",
      signed: "{timestamp}.{body}",
      timestamp: { header: "x-at" },
    });
    const second = take(scheme, { body: OTHER_BODY, signedAt: NOW + 5 });
    expect(identify(take(scheme), [second.request]).matches).toMatchObject([{ scheme, requests: 2 }]);
    expect(identify(take(scheme), [take(loadScheme("github")).request]).matches).toEqual([]);
  });

  it("says where it looked and what came closest when nothing fits", () => {
    const taken = { ...take(loadScheme("github")), secret: "another secret" };
    const closest = { preset: "github", reason: "signature_mismatch" };
    expect(identify(taken)).toMatchObject({ matches: [], lookedAt: ["x-hub-signature-256"], closest });
    const late = take(loadScheme("stripe"));
    const [header = ""] = late.request.headersDistinct["stripe-signature"] ?? [];
    late.request.headersDistinct["stripe-signature"] = [header.replace(/t=\d+,/, "")];
    expect(identify(late).closest).toEqual({ preset: "stripe", reason: "timestamp_missing" });
  });

  it("finds a scheme that signs the endpoint's address only when the address is given", () => {
    const taken = take(loadScheme("square"));
    expect(identify({ ...taken, url: undefined }).matches).toEqual([]);
    expect(identify(taken).matches).toMatchObject([{ setting: "square", signsUrl: true }]);
  });

  it("never accepts an unsigned request or an empty secret", () => {
    const unsigned = { headersDistinct: { host: ["shop.example"], "x-request-id": ["r-1"] }, body: BODY };
    const found = identify({ ...take(loadScheme("github")), request: unsigned });
    expect(found).toMatchObject({ matches: [], lookedAt: [], closest: null });
    expect(identify({ ...take(loadScheme("github")), secret: "" }).matches).toEqual([]);
  });
});

const SECRET = "a secret of a sender, in letters";
const mac = (text: string, encoding: "hex" | "base64" | "base64url" = "hex", algorithm = "sha256") =>
  createHmac(algorithm, SECRET).update(text).digest(encoding);

/** Headers that no preset has, signed by hand: of a body, a time and an id. */
const UNUSUAL: Record<string, (body: string, at: number, id: string) => Record<string, string>> = {
  "t and v0": (body, at) => ({ "x-courier-proof": `t=${at},v0=${mac(`${at}.${body}`)}` }),
  "Authorization: HMAC": (body) => ({ authorization: `HMAC ${mac(body, "base64")}` }),
  "Authorization: HMAC with a key": (body) => ({ authorization: `HMAC merchant-7:${mac(body, "base64")}` }),
  "Authorization: HMAC with parts": (body, at) => ({
    authorization: `HMAC ts=${at},sig=${mac(`${at}:${body}`)}`,
  }),
  "Authorization: Signature with quotes": (body, at) => ({
    authorization: `Signature keyId="k1",created="${at}",signature="${mac(`${at}\n${body}`, "base64")}"`,
  }),
  "a list with spaces": (body, at) => ({ "x-proof": `time=${at}, hash=${mac(`${at}|${body}`)}` }),
  "one prefix for two secrets": (body) => ({ "x-proof": `v0=${mac(body)},v0=${"0".repeat(64)}` }),
  "hex in capitals": (body) => ({ "x-auth-code": mac(body).toUpperCase() }),
  "base64url without padding": (body) => ({ "x-checksum": mac(body, "base64url") }),
  "sha512 in base64": (body) => ({ "x-verify": mac(body, "base64", "sha512") }),
  milliseconds: (body, at) => ({ "x-when": `${at}000`, "x-seal": mac(`${at}000${body}`) }),
  "time before id": (body, at, id) => ({
    "x-msg-id": id,
    "x-when": `${at}`,
    "x-seal": mac(`${at}.${id}.${body}`),
  }),
  "a nonce": (body, _at, id) => ({ "x-nonce": `n-${id}`, "x-seal": mac(`n-${id}.${body}`, "base64") }),
  "the address and the body": (body) => ({ "x-seal": mac(ENDPOINT_URL + body, "base64") }),
  semicolons: (body, at) => ({ "x-seal": `s1=${mac(`${at}:${body}`)};s0=${"0".repeat(64)};ts=${at}` }),
};

it.each(Object.entries(UNUSUAL))("finds a scheme for %s that verifies another request", (_name, write) => {
  const [first, second, third] = [0, 1, 2].map((count) => {
    const body = `{"id":"evt_${count}","type":"order.picked_up","city":"Köln"}`;
    return capture(write(body, NOW - count * 7, `m-${count}b7`), body);
  });
  const taken = { secret: SECRET, request: first!, now: NOW, url: ENDPOINT_URL };
  const [best] = identify(taken, [second!]).matches;
  const isValid = (body: Buffer) => verifies(best!.setting, { ...taken, request: { ...third!, body } });
  expect([isValid(third!.body), isValid(first!.body)]).toEqual([true, false]);
});
