import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeEventBody, makeOrder } from "../../support/mirror/orders.ts";
import { makeHead, openRaw, sendRaw } from "../../support/http/rawHttp.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import {
  CHUNKED,
  headOf,
  KEYED,
  lengthOf,
  makeBody,
  post,
  signHeaders,
  startReceiving,
  type Header,
  type Receiving,
} from "../../support/signing/receiving.ts";
import { EMPTY_MIRROR } from "../../support/mirror/tables.ts";

// receive.test.ts tests what senders do; this file tests what only attackers do.

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
const length = lengthOf(body);
const oneChunk = `${body.length.toString(16)}\r\n${body.toString()}\r\n0\r\n\r\n`;

/** The head of a request that would be accepted without `headers`. */
const headWith = (...headers: Header[]) => headOf(body, ...headers);

describe("a request with an ambiguous end", () => {
  it.each<[string, () => readonly [string, string | Buffer]]>([
    ["a list of lengths", () => [headWith(["Content-Length", `${body.length}, ${body.length}`]), body]],
    ["a coding after chunked", () => [headWith(["Transfer-Encoding", "chunked, identity"]), oneChunk]],
    ["lines without carriage returns", () => [headWith(length).replaceAll("\r\n", "\n"), body]],
    ["a chunk longer than it says", () => [headWith(CHUNKED), "2\r\nabcd\r\n0\r\n\r\n"]],
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
    expect((await sendRaw(receiving.port, headWith(CHUNKED), hidden)).status).toBe(413);
  });
});

it.each<[string, number, () => [string, string | Buffer]]>([
  [
    "a signature in trailers",
    401,
    () => {
      const trailers = Object.entries(signHeaders(body)).map(([name, value]) => `${name}: ${value}\r\n`);
      const unsigned = makeHead("POST /webhooks/live", [["Content-Type", "application/json"], CHUNKED]);
      return [unsigned, oneChunk.replace("0\r\n\r\n", `0\r\n${trailers.join("")}\r\n`)];
    },
  ],
  ["a way upwards", 404, () => [headWith(length).replace("/webhooks", "/ops/../webhooks"), body]],
])("unsigned parts of a request decide nothing: %s", async (_, status, parts) => {
  expect((await sendRaw(receiving.port, ...parts())).status).toBe(status);
  expect(await countInbox()).toBe(0);
});

it("a compressed body is refused, and never unpacked, although it is signed", async () => {
  const bytes = 50 * 1_048_576;
  const bomb = gzipSync(Buffer.alloc(bytes));
  const before = process.memoryUsage().arrayBuffers;
  for (const encoding of ["gzip", "deflate", "br", "gzip, gzip", "identity, gzip"]) {
    const answer = await post(receiving.port, bomb, { headers: { "content-encoding": encoding } });
    expect([encoding, answer.status]).toEqual([encoding, 415]);
  }
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(bytes / 2);
  expect(await countInbox()).toBe(0);
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
  const member = (name: string, json: string) => `${JSON.stringify(name)}:${json}`;
  /** An event about an order with `more` added to the order's text. */
  const eventWith = (more: string, id = "evt_1") => {
    const order = JSON.stringify(makeOrder({ reference: id, updatedAt: at(1) }));
    const text = `${order.slice(0, -1)},${more}}`;
    return Buffer.from(
      `{"id":"${id}","type":"order.created","created":"${at(1)}","livemode":true,"data":${text}}`,
    );
  };
  const APPLIED: Readonly<Record<string, string>> = {
    "a key __proto__": member("__proto__", '{"status":"delivered","isAdmin":true}'),
    "a key constructor": member("constructor", '{"prototype":{"isAdmin":true}}'),
    "a number beyond a double": '"weight":1e400,"size":123456789012345678901234567890',
    "NUL and half a surrogate pair in a text": String.raw`"note":"\u0000 \ud800 \udfff"`,
    "NUL in a key": String.raw`"a\u0000b":1`,
    "SQL and HTML in its texts": `"note":"'; drop table mirror.orders; --<script>alert(1)</script>"`,
    "ten thousand fields": Array.from({ length: 10_000 }, (_, n) => `"f${n}":${n}`).join(","),
    "a text of half a mebibyte": member("note", `"${"x".repeat(524_288)}"`),
  };
  const QUARANTINED: Readonly<Record<string, string>> = {
    "a tree a hundred thousand deep": member("deep", "[".repeat(100_000) + "]".repeat(100_000)),
    "its reference again, as a number": '"reference":7',
    "a second reference with NUL": String.raw`"reference":"a\u0000b"`,
    "a reference of 100,000 characters": member("reference", `"${"x".repeat(100_000)}"`),
    "a version in the year 1e9": '"updatedAt":"+1000000000-01-01T00:00:00Z"',
  };

  it("is kept whole, and holds up no other", async () => {
    const cases = Object.entries({ ...APPLIED, ...QUARANTINED });
    const events = cases.map(([name, more]) => eventWith(more, name));
    const good = makeEventBody({ id: "good", order: { reference: "GOOD", updatedAt: at(1) } });
    for (const event of [...events, good]) expect((await post(receiving.port, event)).status).toBe(200);
    const decisions = await makeLiveApply(database.pool).applyEvents(receiving.notified);
    expect(decisions.map(({ eventId, verdict }) => [eventId, verdict])).toEqual([
      ...Object.keys(APPLIED).map((name) => [name, "applied"]),
      ...Object.keys(QUARANTINED).map((name) => [name, "quarantined"]),
      ["good", "applied"],
    ]);
    const { rows } = await database.pool.query<{ body: Buffer }>(
      "select body from mirror.inbox order by seq",
    );
    expect(rows.map(({ body }) => body).slice(0, -1)).toEqual(events);
    expect((await database.pool.query("select from mirror.pending")).rowCount).toBe(0);
    expect(({} as { isAdmin?: unknown }).isAdmin).toBeUndefined();
    expect({}.constructor).toBe(Object);
  });

  it("has the last of two equal keys everywhere, so that decision and display agree", async () => {
    const event = eventWith(`"status":"cancelled","updatedAt":"${at(5)}"`);
    expect((await post(receiving.port, event)).status).toBe(200);
    await makeLiveApply(database.pool).applyEvents(receiving.notified);
    const { rows } = await database.pool.query<{ status: string; raw: string; shown: unknown }>(
      "select status, raw::text as raw, raw->'status' as shown from mirror.orders",
    );
    expect(rows).toMatchObject([{ status: "cancelled", shown: "cancelled" }]);
    expect(JSON.parse(rows[0]!.raw)).toMatchObject({ status: "cancelled", updatedAt: at(5) });
  });
});
