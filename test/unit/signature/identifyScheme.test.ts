import { generateKeyPairSync } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { identifyScheme } from "../../../src/signature/identifyScheme.ts";
import { PRESETS } from "../../../src/signature/presets.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import type { Scheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";

const NOW = 1_790_000_000;
const BODY = Buffer.from('{"id":"evt_1","type":"order.picked_up","data":{"city":"Köln"}}');
const URL_OF_ENDPOINT = "https://shop.example/webhooks/live";
const NOISE = { host: ["shop.example"], "content-type": ["application/json"], "x-request-id": ["r-1"] };

function secretFor({ secretFormat }: Scheme): { signing: string; verifying: string } {
  if (secretFormat === "whpk") {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const seed = privateKey.export({ format: "der", type: "pkcs8" }).subarray(-32);
    const key = publicKey.export({ format: "der", type: "spki" }).subarray(-32);
    return { signing: `whsk_${seed.toString("base64")}`, verifying: `whpk_${key.toString("base64")}` };
  }
  const bytes = Buffer.from("thirty-two bytes of a good secret");
  const texts = {
    utf8: "pdl_ntfset_a secret, with spaces",
    hex: bytes.toString("hex"),
    base64: bytes.toString("base64"),
    whsec: `whsec_${bytes.toString("base64")}`,
  };
  return { signing: texts[secretFormat], verifying: texts[secretFormat] };
}

function capture(scheme: Scheme, options: { signedAt?: number; body?: Buffer } = {}) {
  const { signing, verifying } = secretFor(scheme);
  const body = options.body ?? BODY;
  const sign = makeSigner({ scheme, secret: signing, url: URL_OF_ENDPOINT });
  const headers = sign({ id: "evt_1", body, nowSeconds: options.signedAt ?? NOW });
  const distinct = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));
  return { request: { headersDistinct: { ...NOISE, ...distinct }, body }, secret: verifying };
}

const identify = (taken: ReturnType<typeof capture>, url: string | undefined = URL_OF_ENDPOINT) =>
  identifyScheme({ ...taken, nowSeconds: NOW, url });

describe("identifying a scheme", () => {
  it.each(Object.keys(PRESETS))("names the preset %s from a request signed with it", (preset) => {
    const found = identify(capture(loadScheme(preset)));
    expect(found.matches.map(({ setting }) => setting)).toEqual([preset]);
  });

  it.each(Object.keys(PRESETS))("describes %s under headers of another name", (preset) => {
    const known = loadScheme(preset);
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
    const verifier = loadVerifier({
      scheme: loadScheme(best?.setting ?? ""),
      secrets: [taken.secret],
      url: URL_OF_ENDPOINT,
    });
    expect(verifier.verify({ ...taken.request, nowSeconds: NOW }).valid).toBe(true);
  });

  it("finds another digest and another format of the secret than the preset's", () => {
    const scheme = { ...loadScheme("github"), algorithm: "hmac-sha512", secretFormat: "hex" } as const;
    const [best] = identify(capture(scheme)).matches;
    expect(loadScheme(best?.setting ?? "")).toEqual(scheme);
  });

  it("tells the age of a request however old it is, on both sides of the tolerance", () => {
    const scheme = loadScheme("stripe");
    for (const ageSeconds of [0, 299, 301, 86_400 * 30, -40]) {
      const [best] = identify(capture(scheme, { signedAt: NOW - ageSeconds })).matches;
      expect(best).toMatchObject({ setting: "stripe", ageSeconds, toleranceSeconds: 300 });
    }
  });

  it("reads the unit of a signed time from its text", () => {
    for (const unit of ["s", "ms", "iso"] as const) {
      const scheme: Scheme = { ...loadScheme("slack"), timestamp: { header: "x-sent-time", unit } };
      const [best] = identify(capture(scheme, { signedAt: NOW - 90 })).matches;
      expect(best?.ageSeconds).toBe(90);
      expect(loadScheme(best?.setting ?? "").timestamp).toEqual({ header: "x-sent-time", unit });
    }
  });

  it("names the headers it looked at when nothing fits", () => {
    const taken = capture(loadScheme("github"));
    expect(identify({ ...taken, secret: "another secret" })).toMatchObject({
      matches: [],
      lookedAt: ["x-hub-signature-256"],
    });
    const changed = { ...taken.request, body: Buffer.concat([BODY, Buffer.from(" ")]) };
    expect(identify({ ...taken, request: changed }).matches).toEqual([]);
  });

  it("leaves out what signs the endpoint's address when the address is not given", () => {
    const found = identifyScheme({ ...capture(loadScheme("square")), nowSeconds: NOW });
    expect(found).toMatchObject({ matches: [], needUrl: ["square"] });
  });

  it("never says yes to an unsigned request or an empty secret", () => {
    expect(identify({ request: { headersDistinct: NOISE, body: BODY }, secret: "s" })).toMatchObject({
      matches: [],
      lookedAt: [],
    });
    expect(identify({ ...capture(loadScheme("github")), secret: "" }).matches).toEqual([]);
  });
});

interface Vector {
  id: string;
  secrets: string[];
  headers: Record<string, string>;
  body?: string;
  bodyRepeat?: [string, number];
  now: number;
  valid: boolean;
}

/** Public vectors; they lie beside the checkout, not in it. */
const FOLDER = path.resolve(import.meta.dirname, "../../../../shared/vectors/signatures");
const present = existsSync(FOLDER);
if (!present) process.stderr.write(`NOT RUN: identifying the public vectors; there is no ${FOLDER}.\n`);

describe.runIf(present).each(["standard-webhooks.json", "convoy-shared.json"])("vectors of %s", (file) => {
  const { vectors } = present
    ? (JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")) as { vectors: Vector[] })
    : { vectors: [] };
  const valid = vectors.filter((vector) => vector.valid);

  it.each(valid.map((vector) => [vector.id, vector] as const))("%s is identified", (_id, vector) => {
    const [text, times] = vector.bodyRepeat ?? [vector.body ?? "", 1];
    const headersDistinct = Object.fromEntries(
      Object.entries(vector.headers).map(([name, value]) => [name.toLowerCase(), [value]]),
    );
    const request = { headersDistinct, body: Buffer.from(text.repeat(times)) };
    const found = vector.secrets.flatMap(
      (secret) => identifyScheme({ request, secret, nowSeconds: vector.now }).matches,
    );
    const verifies = ({ setting }: { setting: string }) =>
      vector.secrets.some((secret) => {
        try {
          const verifier = loadVerifier({ scheme: loadScheme(setting), secrets: [secret] });
          return verifier.verify({ ...request, nowSeconds: vector.now }).valid;
        } catch {
          return false;
        }
      });
    expect(found.length).toBeGreaterThan(0);
    expect(found.every(verifies)).toBe(true);
  });
});
