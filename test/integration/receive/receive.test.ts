import { createHash } from "node:crypto";
import express from "express";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeHead, openRaw, sendRaw } from "../../support/http/rawHttp.ts";
import {
  CHUNKED,
  headOf,
  lengthOf,
  LIVE_SECRETS,
  makeBody,
  post,
  signHeaders,
  startReceiving,
  TEST_SECRET,
  type Receiving,
} from "../../support/signing/receiving.ts";
import { emptying } from "../../support/mirror/tables.ts";

const MEBIBYTE = 1_048_576;

const { database } = await openTestDatabase();
let receiving: Receiving;
beforeEach(async () => {
  await database.pool.query(emptying("inbox pending"));
  receiving = await startReceiving({ url: database.url });
});
afterEach(() => receiving.close());

type InboxRow = Record<"seq" | "source_id" | "event_id" | "secret_index", string> &
  Record<"body" | "body_hash", Buffer>;

const readInbox = async () =>
  (await database.pool.query<InboxRow>("select * from mirror.inbox order by seq")).rows;

const chunk = (bytes: Buffer) => [`${bytes.length.toString(16)}\r\n`, bytes, "\r\n"];

function paddedTo(bytes: number): Buffer {
  const bare = makeBody("evt_big").length;
  return makeBody("evt_big", "x".repeat(bytes - bare));
}

describe("accepts", () => {
  it("a signed event: commits it byte for byte, answers 200 and notifies a worker", async () => {
    const body = Buffer.from('{ "id":"evt_1",\n "type" : "order.picked_up", "ü":1.50 }');
    const answer = await post(receiving.port, body);
    expect([answer.status, answer.headers.get("content-length")]).toEqual([200, "0"]);
    const [row] = await readInbox();
    expect(row?.body.equals(body)).toBe(true);
    expect(row?.body_hash.equals(createHash("sha256").update(body).digest())).toBe(true);
    const { rows: pending } = await database.pool.query("select seq, source_id from mirror.pending");
    expect(pending).toEqual([{ seq: row?.seq, source_id: "live" }]);
    expect(receiving.notified).toEqual([Number(row?.seq)]);
  });

  const one = makeBody("evt_1");
  type Sent = readonly [body: Buffer, options?: Parameters<typeof post>[2]];
  it.each<[string, Sent[], string[]]>([
    ["the same event again, without a second row or notification", [[one], [one], [one]], ["live evt_1 0"]],
    [
      "the same event for two sources, as two rows",
      [[one], [one, { source: "test", secret: TEST_SECRET }]],
      ["live evt_1 0", "test evt_1 0"],
    ],
    [
      "a signature with any of the source's secrets, and records which",
      [[one, { secret: LIVE_SECRETS[1] }]],
      ["live evt_1 1"],
    ],
    [
      "content types of JSON",
      ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x.v1+json"].map((type) => [
        one,
        { headers: { "content-type": type } },
      ]),
      ["live evt_1 0"],
    ],
    [
      "a query string or a slash after the source's name",
      ["live?retry=1", "live/", "live/?a"].map((source) => [one, { source }]),
      ["live evt_1 0"],
    ],
    ["the longest id that fits the key", [[makeBody("ü".repeat(255))]], [`live ${"ü".repeat(255)} 0`]],
  ])("%s", async (_, all, rows) => {
    for (const [body, options] of all) expect((await post(receiving.port, body, options)).status).toBe(200);
    const stored = await readInbox();
    expect(stored.map((row) => `${row.source_id} ${row.event_id} ${row.secret_index}`)).toEqual(rows);
    expect(receiving.notified).toEqual(stored.map(({ seq }) => Number(seq)));
    const { received, duplicate = 0 } = receiving.counts;
    expect([received, duplicate]).toEqual([rows.length, all.length - rows.length]);
  });

  it("what it is, and the headers of its scheme but the signature, and no name of a person or session", async () => {
    const headers = {
      "user-agent": "provider/2".padEnd(300, "x"),
      "x-session-id": "a",
      "cf-access-client-id": "b",
      "x-customer-id": "c",
      "x-caller-id": "+31612345678",
      "x-forwarded-for": "1.2.3.4",
      cookie: "d",
    };
    expect((await post(receiving.port, one, { headers })).status).toBe(200);
    const { rows } = await database.pool.query("select headers from mirror.inbox");
    expect(rows).toEqual([
      {
        headers: {
          "user-agent": "provider/2".padEnd(256, "x"),
          "content-type": "application/json",
          "webhook-id": expect.any(String),
          "webhook-timestamp": expect.stringMatching(/^\d+$/),
        },
      },
    ]);
  });

  it.each([
    ["an encoding without a value", "Content-Type: application/json\r\nContent-Encoding:"],
    ["two equal types that a proxy has joined", "Content-Type: application/json, application/json"],
  ])("%s", async (_, lines) => {
    const body = makeBody("evt_1");
    const head = headOf(body, lengthOf(body)).replace("Content-Type: application/json", lines);
    expect((await sendRaw(receiving.port, head, body)).status).toBe(200);
  });

  it("a body of exactly 1 MiB, and one in chunks", async () => {
    expect((await post(receiving.port, paddedTo(MEBIBYTE))).status).toBe(200);
    const body = makeBody("evt_chunked");
    const chunks = [body.subarray(0, 7), body.subarray(7), Buffer.alloc(0)].flatMap(chunk);
    expect((await sendRaw(receiving.port, headOf(body, CHUNKED), ...chunks)).status).toBe(200);
    expect((await readInbox()).map((row) => row.body.length)).toEqual([MEBIBYTE, body.length]);
  });

  it("a body without a usable id, under the id of its header or under its hash", async () => {
    const hello = Buffer.from("hello");
    expect((await post(receiving.port, hello, { id: "msg_1" })).status).toBe(200);
    const sign = makeSigner({ scheme: loadScheme("github"), secrets: ["a plain secret"] });
    const headers = sign({ id: "", body: hello, nowSeconds: 0 });
    expect((await post(receiving.port, hello, { source: "plain", headers })).status).toBe(200);
    const hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    const keys = ["msg_1", `sha256:${hash}`];
    expect(await readInbox()).toMatchObject(keys.map((event_id) => ({ event_id, body: hello })));
  });
});

describe("refuses", () => {
  const body = makeBody();
  const at = (source = "live") => `http://127.0.0.1:${receiving.port}/webhooks/${source}`;
  afterEach(async () => {
    if ((await readInbox()).length > 0) throw new Error("a request that was refused is in the inbox");
  });

  it("other methods with 405 and Allow", async () => {
    for (const method of ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"]) {
      const answer = await fetch(at(), { method });
      expect([answer.status, answer.headers.get("allow")]).toEqual([405, "POST"]);
    }
  });

  it("an address of no source with 404", async () => {
    for (const source of ["", "other", "live/more", "LIVE", "__proto__", "%6cive", "live%00"])
      expect((await post(receiving.port, body, { source })).status).toBe(404);
    // One line for all: whoever invents names makes the log remember none of them.
    expect(receiving.lines).toEqual([expect.not.objectContaining({ source: expect.anything() as unknown })]);
  });

  it("every kind of wrong signature with the same 401", async () => {
    const answers = await Promise.all([
      post(receiving.port, body, { secret: TEST_SECRET }),
      post(receiving.port, makeBody(), { headers: signHeaders(body) }),
      post(receiving.port, body, { nowSeconds: Math.floor(Date.now() / 1_000) - 310 }),
      post(receiving.port, body, { headers: { "webhook-signature": "\u00fc" } }),
      post(receiving.port, body, { headers: { "webhook-id": "a.b" } }),
      fetch(at(), {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: new Uint8Array(body),
      }),
    ]);
    expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 401));
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(new Set(texts)).toEqual(new Set(['{"error":"unauthorized"}']));
  });

  const empty = Buffer.alloc(0);
  const repeated = (name: string): [string, number, Buffer, string] => {
    const head = headOf(body, lengthOf(body));
    const line = head.split("\r\n").find((each) => each.startsWith(name)) ?? "";
    return [`two headers ${name}`, 400, body, head.replace(line, `${line}\r\n${line}`)];
  };
  const ofType = (type: string): [string, number, Buffer, string] => [
    `the type "${type}"`,
    415,
    body,
    headOf(body, lengthOf(body)).replace("application/json", type),
  ];
  it.each<[string, number, Buffer, string]>([
    ...["webhook-signature", "webhook-id", "webhook-timestamp"].map(repeated),
    ...["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"].map(ofType),
    ["no type", 415, body, headOf(body, lengthOf(body)).replace("Content-Type: application/json\r\n", "")],
    ["an empty body", 400, empty, headOf(empty, lengthOf(empty))],
    ["an empty body of no length", 400, empty, headOf(empty)],
    ["an empty body of no chunks", 400, Buffer.from("0\r\n\r\n"), headOf(empty, CHUNKED)],
  ])("%s with %i", async (_, status, bytes, head) => {
    expect((await sendRaw(receiving.port, head, bytes)).status).toBe(status);
  });

  it("a body over 1 MiB with 413: declared, sent, or in chunks without end", async () => {
    const big = paddedTo(MEBIBYTE + 1);
    expect((await sendRaw(receiving.port, headOf(big, lengthOf(big)))).status).toBe(413);
    expect((await post(receiving.port, big)).status).toBe(413);
    const chunks = Array.from({ length: 17 }, () => chunk(Buffer.alloc(65_536, "x"))).flat();
    expect((await sendRaw(receiving.port, headOf(big, CHUNKED), ...chunks)).status).toBe(413);
  });
});

it("answers the next request on a connection after each refusal", async () => {
  const body = makeBody("evt_1");
  const big = paddedTo(MEBIBYTE + 1);
  const connection = await openRaw(receiving.port);
  const bad = makeHead("POST /webhooks/live", [["Content-Type", "application/json"], lengthOf(body)]);
  for (const [head, bytes, status] of [
    [bad, body, 401],
    [bad.replace("application/json", "text/plain"), body, 415],
    [bad.replace("webhooks/live", "webhooks/none"), body, 404],
    [bad.replace(String(body.length), String(big.length)), big, 413],
    [headOf(big, CHUNKED), Buffer.concat([...chunk(big), "0\r\n\r\n"].map((part) => Buffer.from(part))), 413],
    [headOf(body, lengthOf(body)), body, 200],
  ] as const) {
    connection.write(head);
    connection.write(bytes);
    expect((await connection.readAnswer()).status).toBe(status);
  }
  connection.abort();
});

it("tolerates a sender that disconnects in the middle of its body", async () => {
  const body = makeBody();
  const connection = await openRaw(receiving.port);
  connection.write(headOf(body, lengthOf(body)));
  connection.write(body.subarray(0, 10));
  const countOpen = () =>
    new Promise((resolve) => receiving.server.getConnections((_, count) => resolve(count)));
  await vi.waitFor(async () => expect(await countOpen()).toBe(1), 60_000);
  connection.abort();
  await expect.poll(() => receiving.counts.aborted).toBe(1);
  expect(receiving.lines).toEqual([]);
  expect((await post(receiving.port, body)).status).toBe(200);
});

it("logs a flood of bad signatures once, without anything that was sent", async () => {
  const body = makeBody("evt_secret");
  const headers = { "webhook-signature": "v1,c2VjcmV0IHZhbHVl", "x-hub-digest": "canary-value" };
  await Promise.all(Array.from({ length: 60 }, () => post(receiving.port, body, { headers })));
  expect(receiving.counts.unauthorized).toBe(60);
  expect(receiving.lines).toEqual([
    expect.objectContaining({ outcome: "unauthorized", source: "live", reason: "signature_malformed" }),
  ]);
  expect(JSON.stringify(receiving.lines)).not.toMatch(/c2VjcmV0|canary|evt_secret/);
});

it("slow senders are answered 408, whether the head or the body is slow", async () => {
  const serverLimits = { headersTimeout: 200, requestTimeout: 400, connectionsCheckingInterval: 50 };
  const brief = await startReceiving({ url: database.url, serverLimits });
  onTestFinished(() => brief.close());
  const body = makeBody();
  const head = headOf(body, lengthOf(body));
  expect((await sendRaw(brief.port, head.slice(0, 40))).status).toBe(408);
  expect((await sendRaw(brief.port, head, body.subarray(0, 10))).status).toBe(408);
  expect(brief.counts).toEqual({ aborted: 1 });
});

it("takes the bytes that express.raw has read before, within the same limit, and never a body that was decoded", async () => {
  const raw = express.raw({ type: () => true, limit: "4mb" });
  const [mounted, decoding] = await Promise.all(
    [raw, express.text({ type: () => true })].map((parser) => startReceiving({ url: database.url, parser })),
  );
  for (const each of [mounted!, decoding!]) onTestFinished(() => each.close());
  expect((await post(mounted!.port, makeBody("evt_raw"))).status).toBe(200);
  expect((await post(mounted!.port, Buffer.alloc(2_000_000, 32))).status).toBe(413);
  expect((await post(decoding!.port, makeBody())).status).toBe(500);
  const parsed = { source: "live", headers: { "content-type": "application/json" }, body: {} as never };
  expect((await receiving.receiver.receive(parsed)).status).toBe(500);
  expect(await readInbox()).toEqual([expect.objectContaining({ event_id: "evt_raw" })]);
  const fix = expect.stringMatching(
    /^Something before the mirror has read the body.*express\.raw\(\)/,
  ) as string;
  const outcome = "body_already_read";
  expect(decoding!.lines).toEqual([expect.objectContaining({ level: "error", outcome, fix })]);
});
