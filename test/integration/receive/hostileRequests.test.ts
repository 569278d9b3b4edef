import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeEventBody, makeOrder } from "../../support/mirror/orders.ts";
import { makeHead, openRaw, sendRaw } from "../../support/http/rawHttp.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import {
  KEYED,
  makeBody,
  post,
  signHeaders,
  startReceiving,
  type Receiving,
} from "../../support/signing/receiving.ts";
import { EMPTY_MIRROR } from "../../support/mirror/tables.ts";

// receive.test.ts tests what senders do; this file tests what only attackers do.

type Header = readonly [string, string | number];

const { database } = await openTestDatabase();
let receiving: Receiving;
beforeEach(async () => {
  await database.pool.query(EMPTY_MIRROR);
  receiving = await startReceiving({ url: database.url });
});
afterEach(() => receiving.close());

async function countInbox(): Promise<number> {
  const { rows } = await database.pool.query<{ count: number }>(
    "select count(*)::int as count from mirror.inbox",
  );
  return rows[0]?.count ?? -1;
}

const body = makeBody("evt_1");
const length: Header = ["Content-Length", body.length];
const chunked: Header = ["Transfer-Encoding", "chunked"];
const oneChunk = `${body.length.toString(16)}\r\n${body.toString()}\r\n0\r\n\r\n`;

/** The head of a request that would be accepted without `headers`. */
function headWith(...headers: readonly Header[]): string {
  const common: Header[] = [["Content-Type", "application/json"], ...Object.entries(signHeaders(body))];
  return makeHead("POST /webhooks/live", [...common, ...headers]);
}

describe("a request with an ambiguous end", () => {
  it.each<[string, () => readonly [string, string | Buffer]]>([
    ["a list of lengths", () => [headWith(["Content-Length", `${body.length}, ${body.length}`]), body]],
    ["the same length twice", () => [headWith(length, length), body]],
    ["a length beyond 64 bits", () => [headWith(["Content-Length", "99999999999999999999999"]), body]],
    ["a coding after chunked", () => [headWith(["Transfer-Encoding", "chunked, identity"]), oneChunk]],
    ["a space before a colon", () => [headWith(["Transfer-Encoding ", "chunked"]), oneChunk]],
    ["lines without carriage returns", () => [headWith(length).replaceAll("\r\n", "\n"), body]],
    ["a chunk longer than it says", () => [headWith(chunked), "2\r\nabcd\r\n0\r\n\r\n"]],
    ["a chunk length beyond 64 bits", () => [headWith(chunked), "ffffffffffffffffff\r\nab\r\n0\r\n\r\n"]],
  ])("is refused with its connection: %s", async (_, parts) => {
    const connection = await openRaw(receiving.port);
    for (const part of parts()) connection.write(part);
    // The rest must not be read as a second request.
    connection.write(headWith(length));
    connection.write(body);
    await connection.closed;
    expect((await connection.readAnswer()).status).toBe(400);
    await expect(connection.readAnswer()).rejects.toThrow("closed");
    expect(await countInbox()).toBe(0);
  });

  it("is refused when it hides bytes in chunk extensions", async () => {
    const hidden = oneChunk.replace("\r\n", `;${"x".repeat(20_000)}\r\n`);
    expect((await sendRaw(receiving.port, headWith(chunked), hidden)).status).toBe(413);
  });
});

it.each<[string, number, () => [string, string | Buffer]]>([
  [
    "a signature in trailers",
    401,
    () => {
      const trailers = Object.entries(signHeaders(body)).map(([name, value]) => `${name}: ${value}\r\n`);
      const unsigned = makeHead("POST /webhooks/live", [["Content-Type", "application/json"], chunked]);
      return [unsigned, oneChunk.replace("0\r\n\r\n", `0\r\n${trailers.join("")}\r\n`)];
    },
  ],
  [
    "a method in a header",
    405,
    () => [headWith(length, ["X-HTTP-Method-Override", "POST"]).replace("POST", "GET"), body],
  ],
  ["a whole address", 404, () => [headWith(length).replace("/webhooks", "http://x/webhooks"), body]],
  ["a way upwards", 404, () => [headWith(length).replace("/webhooks", "/ops/../webhooks"), body]],
])("unsigned parts of a request decide nothing: %s", async (_, status, parts) => {
  expect((await sendRaw(receiving.port, ...parts())).status).toBe(status);
  expect(await countInbox()).toBe(0);
});

it("a signature is refused when it is truncated, extended or changed, and for another id, time, body or source", async () => {
  const headers = signHeaders(body);
  const signature = headers["webhook-signature"] ?? "";
  const forged = [
    // Without its padding it still encodes all 32 bytes.
    ...Array.from({ length: signature.length - 1 }, (_, cut) => signature.slice(0, cut)),
    ...["A", "=", "\u00e9"].map((more) => signature + more),
    signature.toLowerCase(),
    ...["v2,", "v1a,", ""].map((version) => signature.replace("v1,", version)),
  ];
  for (const each of forged) {
    const answer = await post(receiving.port, body, { headers: { ...headers, "webhook-signature": each } });
    expect([each, answer.status]).toEqual([each, 401]);
  }
  const later = String(Number(headers["webhook-timestamp"]) + 1);
  const attempts = [
    post(receiving.port, body, { headers: { ...headers, "webhook-id": "msg_other" } }),
    post(receiving.port, body, { headers: { ...headers, "webhook-timestamp": later } }),
    post(receiving.port, Buffer.concat([body, Buffer.from(" ")]), { headers }),
    post(receiving.port, body, { headers, source: "test" }),
  ];
  expect((await Promise.all(attempts)).map(({ status }) => status)).toEqual([401, 401, 401, 401]);
  expect(receiving.counts).toEqual({ unauthorized: forged.length + 4 });
  expect(await countInbox()).toBe(0);
});

describe("a compressed body", () => {
  const zeros = Buffer.alloc(50 * 1_048_576);
  it.each<[string, () => Buffer]>([
    ["gzip", () => gzipSync(zeros)],
    ["deflate", () => deflateSync(zeros)],
    ["br", () => brotliCompressSync(zeros.subarray(0, 1_048_576))],
    ["gzip, gzip", () => gzipSync(gzipSync(zeros))],
    ["identity, gzip", () => gzipSync(zeros)],
  ])("of %s is refused, and never unpacked, although it is signed", async (encoding, bomb) => {
    const before = process.memoryUsage().arrayBuffers;
    const packed = bomb();
    const answer = await post(receiving.port, packed, { headers: { "content-encoding": encoding } });
    expect(answer.status).toBe(415);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(zeros.length / 2);
    expect(await countInbox()).toBe(0);
  });
});

it("a body that is too long for public keys is refused before it is read", async () => {
  const scheme = loadScheme("standard-webhooks-ed25519");
  const send = (bytes: Buffer) => {
    const nowSeconds = Math.floor(Date.now() / 1_000);
    const headers = makeSigner({ scheme, secrets: [KEYED.signing] })({
      id: "msg_1",
      body: bytes,
      nowSeconds,
    });
    return post(receiving.port, bytes, { source: "keyed", headers });
  };
  expect((await send(makeBody("evt_long", "x".repeat(130_000)))).status).toBe(200);
  expect((await send(makeBody("evt_longer", "x".repeat(131_072)))).status).toBe(413);
  expect(await countInbox()).toBe(1);
});

describe("a malicious body with a valid signature", () => {
  /** An event about the order `R1` with `member` added to the order's text. */
  const eventWith = (member: string, id = "evt_1") => {
    const order = JSON.stringify(makeOrder({ reference: "R1", updatedAt: at(1) }));
    const text = `${order.slice(0, -1)},${member}}`;
    return Buffer.from(
      `{"id":"${id}","type":"order.created","created":"${at(1)}","livemode":true,"data":${text}}`,
    );
  };

  async function receiveAndApply(event: Buffer): Promise<string | undefined> {
    expect((await post(receiving.port, event, { id: "msg_1" })).status).toBe(200);
    const good = makeEventBody({ id: "evt_good", order: { reference: "GOOD", updatedAt: at(1) } });
    expect((await post(receiving.port, good)).status).toBe(200);
    const apply = makeLiveApply(database.pool);
    const decisions = await apply.applyEvents(receiving.notified);
    const { rows: pending } = await database.pool.query("select seq from mirror.pending");
    expect(pending).toEqual([]);
    const { rows: orders } = await database.pool.query("select from mirror.orders where reference = 'GOOD'");
    expect(orders).toHaveLength(1);
    const { rows: inbox } = await database.pool.query<{ body: Buffer }>(
      "select body from mirror.inbox order by seq limit 1",
    );
    expect(inbox[0]?.body.equals(event)).toBe(true);
    return decisions.find(({ reference }) => reference !== "GOOD")?.verdict;
  }

  it.each<[string, string, string]>([
    ["a key __proto__", '"__proto__":{"status":"delivered","isAdmin":true}', "applied"],
    [
      "fields named like members of every object",
      '"hasOwnProperty":1,"toString":2,"valueOf":null',
      "applied",
    ],
    ["a key constructor", '"constructor":{"prototype":{"isAdmin":true}}', "applied"],
    ["a number beyond a double", '"weight":1e400,"size":123456789012345678901234567890', "applied"],
    ["NUL and half a surrogate pair in a text", String.raw`"note":"\u0000 \ud800 \udfff"`, "applied"],
    ["NUL in a key", String.raw`"a\u0000b":1`, "applied"],
    [
      "SQL and HTML in its texts",
      `"note":"'; drop table mirror.orders; --<script>alert(1)</script>"`,
      "applied",
    ],
    ["ten thousand fields", Array.from({ length: 10_000 }, (_, n) => `"f${n}":${n}`).join(","), "applied"],
    ["a text of half a mebibyte", `"note":"${"x".repeat(524_288)}"`, "applied"],
    ["a tree a hundred thousand deep", `"deep":${"[".repeat(100_000)}${"]".repeat(100_000)}`, "quarantined"],
    ["its reference again, as a number", '"reference":7', "quarantined"],
    ["a second reference with NUL", String.raw`"reference":"a\u0000b"`, "quarantined"],
    ["a reference of 100,000 characters", `"reference":"${"x".repeat(100_000)}"`, "quarantined"],
    ["a version in the year 1e9", '"updatedAt":"+1000000000-01-01T00:00:00Z"', "quarantined"],
    ["the other mode", '"livemode":false', "quarantined"],
  ])("is kept whole, and holds up no other: %s", async (_, member, verdict) => {
    expect(await receiveAndApply(eventWith(member))).toBe(verdict);
    expect(({} as { isAdmin?: unknown }).isAdmin).toBeUndefined();
    expect({}.constructor).toBe(Object);
  });

  it("takes the last of two equal keys everywhere, so that decision and display agree", async () => {
    const last = `"status":"cancelled","updatedAt":"${at(5)}"`;
    expect(await receiveAndApply(eventWith(last))).toBe("applied");
    const { rows } = await database.pool.query<{ status: string; raw: string; shown: unknown }>(
      "select status, raw::text as raw, raw->'status' as shown from mirror.orders where reference = 'R1'",
    );
    expect(rows[0]).toMatchObject({ status: "cancelled", shown: "cancelled" });
    expect(JSON.parse(rows[0]?.raw ?? "")).toMatchObject({ status: "cancelled", updatedAt: at(5) });
  });
});
