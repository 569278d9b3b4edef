import { createHmac, hash } from "node:crypto";
import { expect, it } from "vitest";
import type { CapturedRequest } from "../../../src/signature/identify/candidates.ts";
import { identifyScheme } from "../../../src/signature/identify/identifyScheme.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";

const NOW = 1_790_000_000;
const SECRET = "a secret of a sender, in letters";
const URL_OF_ENDPOINT = "https://shop.example/webhooks/live";

interface Letter {
  readonly body: string;
  readonly at: number;
  readonly id: string;
}

interface Written {
  readonly headers: Record<string, string>;
  readonly query?: string;
}

const mac = (
  text: string,
  encoding: "hex" | "base64" | "base64url" = "hex",
  algorithm = "sha256",
  secret: string | Buffer = SECRET,
) => createHmac(algorithm, secret).update(text).digest(encoding);
const upper = (text: string) => text.toUpperCase();

/** Requests of senders, with headers that no preset has. Signed by hand, without our own code. */
const SENDERS: Record<string, (letter: Letter) => Written> = {
  "t and v0": ({ body, at }) => ({ headers: { "x-courier-proof": `t=${at},v0=${mac(`${at}.${body}`)}` } }),
  "sha1 in X-Hub-Signature": ({ body }) => ({
    headers: { "x-hub-signature": `sha1=${mac(body, "hex", "sha1")}` },
  }),
  "Authorization: HMAC": ({ body }) => ({ headers: { authorization: `HMAC ${mac(body, "base64")}` } }),
  "Authorization: HMAC with a key": ({ body }) => ({
    headers: { authorization: `HMAC merchant-7:${mac(body, "base64")}` },
  }),
  "Authorization: HMAC with time and parts": ({ body, at }) => ({
    headers: { authorization: `HMAC ts=${at},sig=${mac(`${at}:${body}`)}` },
  }),
  "Authorization: Signature with quotes": ({ body, at }) => ({
    headers: {
      authorization: `Signature keyId="k1",created="${at}",signature="${mac(`${at}\n${body}`, "base64")}"`,
    },
  }),
  "a comma list of two secrets": ({ body }) => ({
    headers: { "x-proof": `${mac(body)},${mac(body, "hex", "sha256", "the old secret of the sender")}` },
  }),
  "a comma list with spaces": ({ body, at }) => ({
    headers: { "x-proof": `time=${at}, hash=${mac(`${at}|${body}`)}` },
  }),
  "one prefix for two": ({ body }) => ({
    headers: { "x-proof": `v0=${mac(body)},${mac(body, "hex", "sha256", "the old secret of the sender")}` },
  }),
  "a name that says nothing": ({ body }) => ({ headers: { "x-c7": mac(body, "base64") } }),
  "hex in capitals": ({ body }) => ({ headers: { "x-auth-code": upper(mac(body)) } }),
  "base64url without padding": ({ body }) => ({ headers: { "x-checksum": mac(body, "base64url") } }),
  "sha512 in base64": ({ body }) => ({ headers: { "x-verify": mac(body, "base64", "sha512") } }),
  sha384: ({ body }) => ({ headers: { "x-verify": mac(body, "hex", "sha384") } }),
  "a parameter of the address": ({ body }) => ({ headers: {}, query: `hmac=${mac(body)}` }),
  "time and signature in the address": ({ body, at }) => ({
    headers: {},
    query: `ts=${at}&signature=${encodeURIComponent(mac(`${at}.${body}`, "base64"))}`,
  }),
  "milliseconds in a header": ({ body, at }) => ({
    headers: { "x-when": `${at}000`, "x-seal": mac(`${at}000${body}`) },
  }),
  "an ISO time": ({ body, at }) => {
    const time = new Date(at * 1_000).toISOString();
    return { headers: { "x-when": time, "x-seal": mac(`${time}.${body}`) } };
  },
  "the Date header": ({ body, at }) => {
    const date = new Date(at * 1_000).toUTCString();
    return { headers: { date, "x-seal": mac(`${date}\n${body}`, "base64") } };
  },
  "id and time in another order": ({ body, at, id }) => ({
    headers: { "x-msg-id": id, "x-when": `${at}`, "x-seal": mac(`${at}.${id}.${body}`) },
  }),
  "a topic": ({ body }) => ({ headers: { "x-topic": "orders", "x-seal": mac(`orders:${body}`) } }),
  "a nonce": ({ body, id }) => ({
    headers: { "x-nonce": `n-${id}`, "x-seal": mac(`n-${id}.${body}`, "base64") },
  }),
  "the body first": ({ body, at }) => ({ headers: { "x-when": `${at}`, "x-seal": mac(`${body}.${at}`) } }),
  "method, path, time and body in lines": ({ body, at }) => ({
    headers: { "x-when": `${at}`, "x-seal": mac(`POST\n/webhooks/live\n${at}\n${body}`) },
  }),
  "the address and the body": ({ body }) => ({
    headers: { "x-seal": mac(URL_OF_ENDPOINT + body, "base64") },
  }),
  "a hash of the body": ({ body, at }) => ({
    headers: { "x-when": `${at}`, "x-seal": mac(`${at}.${hash("sha256", body)}`) },
  }),
  "a fixed word": ({ body, at }) => ({
    headers: { "x-when": `${at}`, "x-seal": `v2=${mac(`v2:${at}:${body}`)}` },
  }),
  semicolons: ({ body, at }) => ({
    headers: { "x-seal": `s1=${mac(`${at}:${body}`)};s0=${"0".repeat(64)};ts=${at}` },
  }),
  "a key in hex": ({ body }) => ({
    headers: { "x-seal": mac(body, "hex", "sha256", Buffer.from(hash("sha256", SECRET), "hex")) },
  }),
  "parts without names": ({ body, at }) => ({ headers: { "x-seal": `${at}:${mac(`${at}.${body}`)}` } }),
};

const capture = ({ headers, query }: Written, body: string): CapturedRequest => ({
  headersDistinct: Object.fromEntries(
    Object.entries({
      host: "shop.example",
      "user-agent": "Courier/2.1",
      accept: "*/*",
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
      ...headers,
    }).map(([name, value]) => [name, [value]]),
  ),
  body: Buffer.from(body),
  target: `/webhooks/live${query === undefined ? "" : `?${query}`}`,
});

it("are thirty", () => expect(Object.keys(SENDERS)).toHaveLength(30));

it.each(Object.entries(SENDERS))(
  "%s: the scheme that is found verifies another request, and not with another body",
  (name, write) => {
    const secret = name === "a key in hex" ? hash("sha256", SECRET) : SECRET;
    const letters: Letter[] = [0, 1, 2].map((count) => ({
      body: `{"id":"evt_${count}","type":"order.picked_up","city":"Köln"}`,
      at: NOW - count * 7,
      id: `m-${count}b7`,
    }));
    const [first, second, third] = letters.map((letter) => capture(write(letter), letter.body));
    const found = identifyScheme({
      requests: [first!, second!],
      secret,
      nowSeconds: NOW,
      url: URL_OF_ENDPOINT,
    });
    const [best] = found.matches;
    expect(best, `${found.tried} texts, unsafe: ${found.unsafe.join("; ")}`).toBeDefined();
    const { verify } = loadVerifier({
      scheme: loadScheme(best!.setting),
      secrets: [secret],
      url: URL_OF_ENDPOINT,
    });
    const isValid = (body: Buffer) =>
      verify({ ...third!, query: third!.target?.split("?")[1], body, nowSeconds: NOW }).valid;
    expect([isValid(third!.body), isValid(first!.body)]).toEqual([true, false]);
  },
);
